// SPDX-License-Identifier: Apache-2.0
//
// Top module of the simulated NIC of `transfer` with its AXI4-Lite window (scripts/rtl-sim.sh window): the ports of
// ls_transfer_core and of the window, on one clock.
//
// Interface: ls_transfer_core and ls_control describe the streams. counters_o, drops_o and barrier_o are the values
// inside of the NIC; ls_sim.cpp gives out those that it reads by the window.

module ls_sim_nic
  import ls_pkg::*;
  import ls_pipeline_pkg::*;
#(
    parameter int unsigned BucketBits  = 4,
    parameter int unsigned SessionBits = 2,
    parameter int unsigned RecordDepth = 16
) (
    input logic clk_i,
    input logic rst_ni,

    input logic s_axil_awvalid,
    output logic s_axil_awready,
    input logic [AxilAddressBits-1:0] s_axil_awaddr,
    input logic s_axil_wvalid,
    output logic s_axil_wready,
    input logic [31:0] s_axil_wdata,
    input logic [3:0] s_axil_wstrb,
    output logic s_axil_bvalid,
    input logic s_axil_bready,
    output logic [1:0] s_axil_bresp,
    input logic s_axil_arvalid,
    output logic s_axil_arready,
    input logic [AxilAddressBits-1:0] s_axil_araddr,
    output logic s_axil_rvalid,
    input logic s_axil_rready,
    output logic [31:0] s_axil_rdata,
    output logic [1:0] s_axil_rresp,

    input logic s_axis_tvalid,
    output logic s_axis_tready,
    input logic [511:0] s_axis_tdata,
    input logic [63:0] s_axis_tkeep,
    input logic s_axis_tlast,

    output logic m_axis_network_tvalid,
    input logic m_axis_network_tready,
    output logic [511:0] m_axis_network_tdata,
    output logic [63:0] m_axis_network_tkeep,
    output logic m_axis_network_tlast,

    output logic m_axis_host_tvalid,
    input logic m_axis_host_tready,
    output logic [511:0] m_axis_host_tdata,
    output logic [63:0] m_axis_host_tkeep,
    output logic m_axis_host_tlast,

    input logic s_command_tvalid,
    output logic s_command_tready,
    input logic [511:0] s_command_tdata,

    output logic m_axis_record_tvalid,
    input logic m_axis_record_tready,
    output logic [511:0] m_axis_record_tdata,
    output logic m_axis_record_tlast,

    output logic m_axis_response_tvalid,
    input logic m_axis_response_tready,
    output logic [511:0] m_axis_response_tdata,
    output logic m_axis_response_tlast,

    output logic [31:0] barrier_o,
    output logic [TransferCounters-1:0][63:0] counters_o,
    output logic [DropReasons-1:0][63:0] drops_o,

    output logic frame_passed_o,
    output verdict_e passed_verdict_o
);

  assign barrier_o  = u_nic.barrier;
  assign counters_o = u_nic.counters;
  assign drops_o    = u_nic.drops;

  ls_nic #(
      .Transfer(1'b1),
      .BucketBits(BucketBits),
      .SessionBits(SessionBits),
      .RecordDepth(RecordDepth)
  ) u_nic (
      .axil_clk_i(clk_i),
      .axil_rst_ni(rst_ni),
      .*
  );

endmodule
