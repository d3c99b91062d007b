# SPDX-License-Identifier: Apache-2.0
#
# Synthesizes, places and routes one module of rtl/ out of context with Vivado, and writes timing and utilization:
#
#     vivado -mode batch -source rtl/syn/vivado/ooc.tcl -tclargs TOP [PART [STRATEGY [SERVICE]]]
#
# SERVICE is spv (the default) or transfer.
# TOP is ls_nic, lineside_250mhz (OpenNIC) or smartnic_app (ESnet SmartNIC). The default part is that of the Alveo U250.
# Reports go to target/vivado/TOP.
#
# This script and the constraints in its folder were written without Vivado and have not been run.

set top [lindex $argv 0]
set part [expr {[llength $argv] > 1 ? [lindex $argv 1] : "xcu250-figd2104-2L-e"}]
set strategy [expr {[llength $argv] > 2 ? [lindex $argv 2] : "Explore"}]
set service [expr {[llength $argv] > 3 ? [lindex $argv 3] : "spv"}]
set defines [expr {$service eq "transfer" ? {SYNTHESIS=1 LINESIDE_TRANSFER=1} : {SYNTHESIS=1}}]
set generics [expr {$top eq "ls_nic" && $service eq "transfer" ? {-generic Transfer=1} : {}}]
set lists [dict create ls_nic {spv/spv.f shells/nic.f} \
    lineside_250mhz {spv/spv.f shells/nic.f shells/opennic/opennic.f} \
    smartnic_app {spv/spv.f shells/nic.f shells/esnet-opennic/esnet.f}]
if {![dict exists $lists $top]} {
    puts stderr "ooc.tcl: no such top module: '$top'; give one of [dict keys $lists]"
    exit 2
}

set here [file dirname [file normalize [info script]]]
set rtl [file normalize [file join $here .. ..]]
set out [file normalize [file join $rtl .. target vivado $top]]
file mkdir $out

foreach files [dict get $lists $top] {
    set list [open [file join $rtl $files]]
    foreach name [split [string trim [read $list]] "\n"] {
        read_verilog -sv [file join $rtl $name]
    }
    close $list
}
read_xdc -mode out_of_context [file join $here $top.xdc]
read_xdc -ref ls_axil_cross [file join $here ls_axil_cross.xdc]
if {$top ne "ls_nic"} {
    read_xdc -ref ls_reset_sync [file join $here ls_reset_sync.xdc]
}

synth_design -mode out_of_context -top $top -part $part -verilog_define $defines {*}$generics
report_utilization -hierarchical -file [file join $out utilization_synth.rpt]
opt_design
place_design -directive $strategy
phys_opt_design
route_design -directive $strategy
report_timing_summary -max_paths 20 -file [file join $out timing.rpt]
report_utilization -hierarchical -file [file join $out utilization.rpt]
report_cdc -details -file [file join $out cdc.rpt]
report_drc -file [file join $out drc.rpt]
write_checkpoint -force [file join $out $top.dcp]

set slack [get_property SLACK [get_timing_paths -delay_type max -max_paths 1]]
puts "ooc: $top on $part: worst setup slack $slack ns; reports in $out"
exit [expr {$slack < 0}]
