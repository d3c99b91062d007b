# SPDX-License-Identifier: Apache-2.0
#
# Clocks of smartnic_app out of context: 250 MHz for the pipeline. The clock of the application block belongs to the shell;
# set the period to that of the shell at hand. Not run with Vivado.
create_clock -name pipeline -period 4.000 [get_ports core_clk]
create_clock -name bus -period 8.000 [get_ports axil_aclk]
