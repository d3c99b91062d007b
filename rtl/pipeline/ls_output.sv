// SPDX-License-Identifier: Apache-2.0
//
// Output of the pipeline: the queue of decisions, and ls_emit with a register in front of each of its inputs, because
// both come out of distributed RAM.
//
// Interface: decision_valid_i is 1 for one cycle for each decision, and needs space in the queue: at most Decisions may
// be under way. Frames come by ready/valid, in the order of the decisions. decision_taken_o is 1 for one cycle when the
// last beat of a frame has met its decision. The outputs are AXI-Stream; see ls_emit.
// Latency: four cycles from a decision, three from a frame whose decision was there.
// Throughput: one beat in each cycle.

module ls_output
  import ls_pipeline_pkg::*;
#(
    parameter int unsigned Decisions = 64  // power of two
) (
    input logic clk_i,
    input logic rst_ni,

    input logic decision_valid_i,
    input decision_t decision_i,
    output logic decision_taken_o,

    input  logic  frame_valid_i,
    output logic  frame_ready_o,
    input  beat_t frame_i,

    output logic m_axis_network_tvalid,
    input logic m_axis_network_tready,
    output logic [BeatBits-1:0] m_axis_network_tdata,
    output logic [BeatBytes-1:0] m_axis_network_tkeep,
    output logic m_axis_network_tlast,

    output logic m_axis_host_tvalid,
    input logic m_axis_host_tready,
    output logic [BeatBits-1:0] m_axis_host_tdata,
    output logic [BeatBytes-1:0] m_axis_host_tkeep,
    output logic m_axis_host_tlast,

    output logic frame_passed_o,
    output verdict_e passed_verdict_o
);

  logic decisions_ready, queued_valid, queued_ready, decision_valid, decision_ready, frame_valid, frame_ready;
  decision_t queued, decision;
  beat_t frame, network_beat, host_beat;

  ls_queue #(
      .T(decision_t),
      .Depth(Decisions)
  ) u_decisions (
      .clk_i,
      .rst_ni,
      .valid_i(decision_valid_i),
      .ready_o(decisions_ready),
      .data_i (decision_i),
      .valid_o(queued_valid),
      .ready_i(queued_ready),
      .data_o (queued)
  );

  ls_skid #(
      .T(decision_t)
  ) u_decision (
      .clk_i,
      .rst_ni,
      .valid_i(queued_valid),
      .ready_o(queued_ready),
      .data_i (queued),
      .valid_o(decision_valid),
      .ready_i(decision_ready),
      .data_o (decision)
  );

  ls_skid #(
      .T(beat_t)
  ) u_frame (
      .clk_i,
      .rst_ni,
      .valid_i(frame_valid_i),
      .ready_o(frame_ready_o),
      .data_i (frame_i),
      .valid_o(frame_valid),
      .ready_i(frame_ready),
      .data_o (frame)
  );

  assign decision_taken_o = decision_valid && decision_ready;

  ls_emit u_emit (
      .clk_i,
      .rst_ni,
      .decision_valid_i(decision_valid),
      .decision_ready_o(decision_ready),
      .decision_i(decision),
      .frame_valid_i(frame_valid),
      .frame_ready_o(frame_ready),
      .frame_i(frame),
      .network_valid_o(m_axis_network_tvalid),
      .network_ready_i(m_axis_network_tready),
      .network_o(network_beat),
      .host_valid_o(m_axis_host_tvalid),
      .host_ready_i(m_axis_host_tready),
      .host_o(host_beat),
      .frame_passed_o,
      .passed_verdict_o
  );

  assign m_axis_network_tdata = network_beat.data;
  assign m_axis_network_tkeep = network_beat.keep;
  assign m_axis_network_tlast = network_beat.last;
  assign m_axis_host_tdata = host_beat.data;
  assign m_axis_host_tkeep = host_beat.keep;
  assign m_axis_host_tlast = host_beat.last;

`ifndef SYNTHESIS
  always_ff @(posedge clk_i)
    if (rst_ni) assert (!decision_valid_i || decisions_ready) else $error("a decision was lost");
`endif

endmodule
