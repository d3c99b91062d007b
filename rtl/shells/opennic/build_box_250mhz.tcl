# SPDX-License-Identifier: Apache-2.0
#
# The build of OpenNIC reads this file, in the folder of the plug-in, for the sources of the 250 MHz box. It was not
# run: no Vivado was available.
set plugin_dir [file dirname [file normalize [info script]]]
foreach files {spv/spv.f shells/nic.f shells/opennic/opennic.f} {
    set list [open [file join $plugin_dir .. .. $files]]
    foreach name [split [string trim [read $list]] "\n"] {
        read_verilog -quiet -sv [file normalize [file join $plugin_dir .. .. $name]]
    }
    close $list
}
