# SPDX-License-Identifier: Apache-2.0
#
# Paths between the two clocks of ls_axil_cross (read with `read_xdc -ref ls_axil_cross`). The levels go through two
# registers; request and response do not change while they are read, so their delay has to be below one cycle of the
# faster clock only. The value is for 250 MHz. Not run with Vivado.
set_max_delay -datapath_only -from [get_cells asks_q_reg] -to [get_cells {ask_q_reg[0]}] 4.000
set_max_delay -datapath_only -from [get_cells answers_q_reg] -to [get_cells {answer_q_reg[0]}] 4.000
set_max_delay -datapath_only -from [get_clocks -of_objects [get_ports bus_clk_i]] -to [get_cells request_o_reg*] 4.000
set_max_delay -datapath_only -from [get_cells response_q_reg*] -to [get_cells response_o_reg*] 4.000
