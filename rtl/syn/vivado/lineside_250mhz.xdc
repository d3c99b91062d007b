# SPDX-License-Identifier: Apache-2.0
#
# Clocks of lineside_250mhz out of context: 250 MHz and 125 MHz, as in the 250 MHz box of OpenNIC. Not run with Vivado.
create_clock -name pipeline -period 4.000 [get_ports axis_aclk]
create_clock -name bus -period 8.000 [get_ports axil_aclk]
