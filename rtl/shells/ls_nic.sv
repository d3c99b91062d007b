// SPDX-License-Identifier: Apache-2.0
//
// Pipeline of one service together with its AXI4-Lite window: what the shells of real cards instantiate.
//
// Interface: Transfer chooses the service: 0 for `spv`, 1 for `transfer`. ls_spv_core, ls_transfer_core and ls_control
// describe the streams; those of records and responses are idle in the NIC of `spv`. s_axil is synchronous to
// axil_clk_i, everything else to clk_i. Both resets are synchronous to their clocks.

module ls_nic
  import ls_pkg::*;
  import ls_pipeline_pkg::*;
#(
    parameter bit Transfer = 1'b0,
    parameter int unsigned LineBits = 10,  // this one and the next three: `spv`
    parameter int unsigned BlockBits = 4,
    parameter LineStyle = "block",
    parameter BlockStyle = "block",
    parameter int unsigned BucketBits = 10,  // this one and those after it: `transfer`
    parameter int unsigned SessionBits = 10,
    parameter int unsigned RecordDepth = 64,
    parameter AccountStyle = "block"
) (
    input logic axil_clk_i,
    input logic axil_rst_ni,

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

    input logic clk_i,
    input logic rst_ni,

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

    output logic frame_passed_o,
    output verdict_e passed_verdict_o
);

  localparam int unsigned Counters = Transfer ? TransferCounters : SpvCounters;
  localparam int unsigned CountersAt = Transfer ? AxilCountersTransferAt : AxilCountersSpvAt;
  // The word `table` of the window.
  localparam logic [31:0] SpvSizes = {16'd0, 8'(BlockBits), 8'(LineBits)};
  localparam logic [31:0] TransferSizes = {8'(SessionBits), 8'(BucketBits), 16'd0};

  logic command_valid, command_ready;
  logic [511:0] command;
  logic [31:0] barrier;
  logic [63:0] now_ns;
  logic [Counters-1:0][63:0] counters;
  logic [DropReasons-1:0][63:0] drops;

  ls_control #(
      .Sizes(Transfer ? TransferSizes : SpvSizes),
      .Counters(Counters),
      .CountersAt(CountersAt)
  ) u_control (
      .axil_clk_i,
      .axil_rst_ni,
      .s_axil_awvalid,
      .s_axil_awready,
      .s_axil_awaddr,
      .s_axil_wvalid,
      .s_axil_wready,
      .s_axil_wdata,
      .s_axil_wstrb,
      .s_axil_bvalid,
      .s_axil_bready,
      .s_axil_bresp,
      .s_axil_arvalid,
      .s_axil_arready,
      .s_axil_araddr,
      .s_axil_rvalid,
      .s_axil_rready,
      .s_axil_rdata,
      .s_axil_rresp,
      .clk_i,
      .rst_ni,
      .s_command_tvalid,
      .s_command_tready,
      .s_command_tdata,
      .m_command_tvalid(command_valid),
      .m_command_tready(command_ready),
      .m_command_tdata(command),
      .barrier_i(barrier),
      .drops_i(drops),
      .counters_i(counters),
      .now_ns_o(now_ns)
  );

  if (Transfer) begin : gen_transfer
    ls_transfer_core #(
        .BucketBits(BucketBits),
        .SessionBits(SessionBits),
        .RecordDepth(RecordDepth),
        .Style(AccountStyle)
    ) u_core (
        .clk_i,
        .rst_ni,
        .now_ns_i(now_ns),
        .s_axis_tvalid,
        .s_axis_tready,
        .s_axis_tdata,
        .s_axis_tkeep,
        .s_axis_tlast,
        .m_axis_network_tvalid,
        .m_axis_network_tready,
        .m_axis_network_tdata,
        .m_axis_network_tkeep,
        .m_axis_network_tlast,
        .m_axis_host_tvalid,
        .m_axis_host_tready,
        .m_axis_host_tdata,
        .m_axis_host_tkeep,
        .m_axis_host_tlast,
        .m_axis_record_tvalid,
        .m_axis_record_tready,
        .m_axis_record_tdata,
        .m_axis_record_tlast,
        .s_command_tvalid(command_valid),
        .s_command_tready(command_ready),
        .s_command_tdata(command),
        .barrier_o(barrier),
        .m_axis_response_tvalid,
        .m_axis_response_tready,
        .m_axis_response_tdata,
        .m_axis_response_tlast,
        .counters_o(counters),
        .drops_o(drops),
        .frame_passed_o,
        .passed_verdict_o
    );
  end else begin : gen_spv
    assign m_axis_record_tvalid = 1'b0;
    assign m_axis_record_tdata = '0;
    assign m_axis_record_tlast = 1'b0;
    assign m_axis_response_tvalid = 1'b0;
    assign m_axis_response_tdata = '0;
    assign m_axis_response_tlast = 1'b0;

    ls_spv_core #(
        .LineBits  (LineBits),
        .BlockBits (BlockBits),
        .LineStyle (LineStyle),
        .BlockStyle(BlockStyle)
    ) u_core (
        .clk_i,
        .rst_ni,
        .now_ns_i(now_ns),
        .s_axis_tvalid,
        .s_axis_tready,
        .s_axis_tdata,
        .s_axis_tkeep,
        .s_axis_tlast,
        .m_axis_network_tvalid,
        .m_axis_network_tready,
        .m_axis_network_tdata,
        .m_axis_network_tkeep,
        .m_axis_network_tlast,
        .m_axis_host_tvalid,
        .m_axis_host_tready,
        .m_axis_host_tdata,
        .m_axis_host_tkeep,
        .m_axis_host_tlast,
        .s_command_tvalid(command_valid),
        .s_command_tready(command_ready),
        .s_command_tdata(command),
        .barrier_o(barrier),
        .counters_o(counters),
        .drops_o(drops),
        .frame_passed_o,
        .passed_verdict_o,
        // The lines are on the chip, so the port to external memory is not used.
        .m_axi_awaddr(),
        .m_axi_awlen(),
        .m_axi_awsize(),
        .m_axi_awburst(),
        .m_axi_awvalid(),
        .m_axi_awready(1'b0),
        .m_axi_wdata(),
        .m_axi_wstrb(),
        .m_axi_wlast(),
        .m_axi_wvalid(),
        .m_axi_wready(1'b0),
        .m_axi_bresp('0),
        .m_axi_bvalid(1'b0),
        .m_axi_bready(),
        .m_axi_araddr(),
        .m_axi_arlen(),
        .m_axi_arsize(),
        .m_axi_arburst(),
        .m_axi_arvalid(),
        .m_axi_arready(1'b0),
        .m_axi_rdata('0),
        .m_axi_rresp('0),
        .m_axi_rlast(1'b0),
        .m_axi_rvalid(1'b0),
        .m_axi_rready(),
        .memory_counters_o(),
        .lines_done_o()
    );
  end

endmodule
