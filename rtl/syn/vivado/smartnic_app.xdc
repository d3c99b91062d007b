# SPDX-License-Identifier: Apache-2.0
#
# Clocks of smartnic_app out of context: 250 MHz for the pipeline, 125 MHz for AXI4-Lite. The shell determines the clock
# of the application block: set the period to that of your shell. Not run with Vivado.
create_clock -name pipeline -period 4.000 [get_ports core_clk]
create_clock -name bus -period 8.000 [get_ports axil_aclk]
