// SPDX-License-Identifier: Apache-2.0
//
// Network port of a card: ls_nic between the network and the host. Frames from the network go through the pipeline to
// the host; replies of the pipeline and frames from the host go to the network, whole frames in turn.
//
// Interface: each frame has a mark of the shell (T), such as its length and source, which is the same in all of its
// beats. A frame that goes on to the host, and a reply, have the mark of the frame from the network. A reply has the
// length of its request, so a length in the mark stays right. network_is_reply_o tells replies from frames of the host.
// Frames of less than one beat of data, or with gaps in tkeep, must not be sent.
// The host's DMA has a stream in each direction, whose packets are no frames: each beat of from_dma is a command; a
// beat without all of its 64 bytes is discarded. A packet to_dma is a record (two beats) or a response (one beat) of
// `transfer`; `spv` sends none. The host must take packets while it sends commands, because a response that cannot
// leave holds back the commands after it. The parameters are those of ls_nic.

module ls_port
  import ls_pkg::*;
  import ls_pipeline_pkg::*;
#(
    parameter type T = logic [7:0],
    parameter bit Transfer = 1'b0,
    parameter int unsigned LineBits = 10,
    parameter int unsigned BlockBits = 4,
    parameter LineStyle = "block",
    parameter BlockStyle = "block",
    parameter int unsigned BucketBits = 10,
    parameter int unsigned SessionBits = 10,
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

    input  logic  from_network_valid_i,
    output logic  from_network_ready_o,
    input  beat_t from_network_i,
    input  T      from_network_mark_i,

    output logic  to_network_valid_o,
    input  logic  to_network_ready_i,
    output beat_t to_network_o,
    output T      to_network_mark_o,
    output logic  network_is_reply_o,

    input  logic  from_host_valid_i,
    output logic  from_host_ready_o,
    input  beat_t from_host_i,
    input  T      from_host_mark_i,

    output logic  to_host_valid_o,
    input  logic  to_host_ready_i,
    output beat_t to_host_o,
    output T      to_host_mark_o,

    input  logic  from_dma_valid_i,
    output logic  from_dma_ready_o,
    input  beat_t from_dma_i,

    output logic  to_dma_valid_o,
    input  logic  to_dma_ready_i,
    output beat_t to_dma_o,
    output logic [15:0] to_dma_bytes_o  // of the packet, in each of its beats
);

  // More frames than the pipeline can hold, so that the marks never stop the input.
  localparam int unsigned Marks = 128;

  typedef struct packed {
    T mark;
    beat_t beat;
  } marked_t;

  logic core_valid, core_ready, reply_valid, reply_ready, passed, mark_ready, unused_mark_valid;
  beat_t reply;
  T mark;
  verdict_e unused_verdict;
  logic [$clog2(Marks):0] unused_count;
  logic is_command, command_ready, record_valid, record_ready, record_last;
  logic response_valid, response_ready, response_last, is_response;
  logic [511:0] record;
  logic [511:0] response;

  assign core_valid = from_network_valid_i && mark_ready;
  assign from_network_ready_o = core_ready && mark_ready;
  assign is_command = &from_dma_i.keep;
  assign from_dma_ready_o = command_ready || !is_command;

  ls_nic #(
      .Transfer(Transfer),
      .LineBits(LineBits),
      .BlockBits(BlockBits),
      .LineStyle(LineStyle),
      .BlockStyle(BlockStyle),
      .BucketBits(BucketBits),
      .SessionBits(SessionBits),
      .AccountStyle(AccountStyle)
  ) u_nic (
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
      .s_axis_tvalid(core_valid),
      .s_axis_tready(core_ready),
      .s_axis_tdata(from_network_i.data),
      .s_axis_tkeep(from_network_i.keep),
      .s_axis_tlast(from_network_i.last),
      .m_axis_network_tvalid(reply_valid),
      .m_axis_network_tready(reply_ready),
      .m_axis_network_tdata(reply.data),
      .m_axis_network_tkeep(reply.keep),
      .m_axis_network_tlast(reply.last),
      .m_axis_host_tvalid(to_host_valid_o),
      .m_axis_host_tready(to_host_ready_i),
      .m_axis_host_tdata(to_host_o.data),
      .m_axis_host_tkeep(to_host_o.keep),
      .m_axis_host_tlast(to_host_o.last),
      .s_command_tvalid(from_dma_valid_i && is_command),
      .s_command_tready(command_ready),
      .s_command_tdata(from_dma_i.data),
      .m_axis_record_tvalid(record_valid),
      .m_axis_record_tready(record_ready),
      .m_axis_record_tdata(record),
      .m_axis_record_tlast(record_last),
      .m_axis_response_tvalid(response_valid),
      .m_axis_response_tready(response_ready),
      .m_axis_response_tdata(response),
      .m_axis_response_tlast(response_last),
      .frame_passed_o(passed),
      .passed_verdict_o(unused_verdict)
  );

  // Records and responses share the stream to the host's DMA, whole packets in turn.
  ls_frame_merge #(
      .T(logic [511:0])
  ) u_dma (
      .clk_i,
      .rst_ni,
      .valid_i ({response_valid, record_valid}),
      .ready_o ({response_ready, record_ready}),
      .data_i  ({response, record}),
      .last_i  ({response_last, record_last}),
      .valid_o (to_dma_valid_o),
      .ready_i (to_dma_ready_i),
      .data_o  (to_dma_o.data),
      .last_o  (to_dma_o.last),
      .source_o(is_response)
  );

  assign to_dma_o.keep  = '1;
  assign to_dma_bytes_o = is_response ? 16'd64 : 16'd128;

  // The mark is taken with the first beat, because a long frame begins to leave before its end has come.
  logic is_inside_q;  // a frame from the network has begun

  always_ff @(posedge clk_i) begin
    if (!rst_ni) is_inside_q <= 1'b0;
    else if (from_network_valid_i && from_network_ready_o) is_inside_q <= !from_network_i.last;
  end

  // Frames pass in order, dropped ones too, so the first mark is always that of the frame at the outputs.
  ls_fifo #(
      .T(T),
      .Depth(Marks)
  ) u_marks (
      .clk_i,
      .rst_ni,
      .valid_i(from_network_valid_i && core_ready && !is_inside_q),
      .ready_o(mark_ready),
      .data_i (from_network_mark_i),
      .valid_o(unused_mark_valid),
      .ready_i(passed),
      .data_o (mark),
      .count_o(unused_count)
  );

  assign to_host_mark_o = mark;

  marked_t [1:0] sources;
  marked_t merged;
  assign sources[0] = '{mark: mark, beat: reply};
  assign sources[1] = '{mark: from_host_mark_i, beat: from_host_i};

  logic merged_last, is_from_host;

  ls_frame_merge #(
      .T(marked_t)
  ) u_merge (
      .clk_i,
      .rst_ni,
      .valid_i ({from_host_valid_i, reply_valid}),
      .ready_o ({from_host_ready_o, reply_ready}),
      .data_i  (sources),
      .last_i  ({from_host_i.last, reply.last}),
      .valid_o (to_network_valid_o),
      .ready_i (to_network_ready_i),
      .data_o  (merged),
      .last_o  (merged_last),
      .source_o(is_from_host)
  );

  assign to_network_o.data  = merged.beat.data;
  assign to_network_o.keep  = merged.beat.keep;
  assign to_network_o.last  = merged_last;
  assign to_network_mark_o  = merged.mark;
  assign network_is_reply_o = !is_from_host;

endmodule
