# SPDX-License-Identifier: Apache-2.0
#
# Clocks of ls_nic out of context: 250 MHz for the pipeline, 125 MHz for AXI4-Lite. Not run with Vivado.
create_clock -name pipeline -period 4.000 [get_ports clk_i]
create_clock -name bus -period 8.000 [get_ports axil_clk_i]
