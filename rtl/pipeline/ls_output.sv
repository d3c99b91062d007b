// SPDX-License-Identifier: Apache-2.0
//
// Output of the pipeline: the queue of decisions, and ls_emit. The bits of a decision that tell ls_emit whether it
// takes a beat, and how, have a queue of their own with a register behind it, because they are the beginning of long
// paths.
//
// Interface: decision_valid_i is 1 for one cycle for each decision, and needs space in the queue: at most Decisions may
// be under way. Frames and patches come by ready/valid, in the order of the decisions; see ls_emit. decision_taken_o is
// 1 for one cycle after the last beat of a frame has met its decision. The outputs are AXI-Stream.
// Latency: six cycles from a decision, four from a frame whose decision was there.
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

    input  logic   patch_valid_i,
    output logic   patch_ready_o,
    input  patch_t patch_i,

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

  typedef struct packed {
    verdict_e verdict;
    logic is_patched;
    logic is_v6;
    logic is_vlan;
  } flags_t;

  logic decisions_ready, queued_valid, flags_ready, next_valid, next_ready, flags_valid, decision_valid, decision_ready;
  logic [$clog2(Decisions):0] unused_count;
  decision_t queued, decision;
  flags_t next, flags;
  beat_t network_beat, host_beat;

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
      .ready_i(decision_ready),
      .data_o (queued)
  );

  ls_fifo #(
      .T(flags_t),
      .Depth(Decisions)
  ) u_flags (
      .clk_i,
      .rst_ni,
      .valid_i(decision_valid_i),
      .ready_o(flags_ready),
      .data_i ('{
          verdict: decision_i.verdict,
          is_patched: decision_i.is_patched,
          is_v6: decision_i.is_v6,
          is_vlan: decision_i.is_vlan
      }),
      .valid_o(next_valid),
      .ready_i(next_ready),
      .data_o (next),
      .count_o(unused_count)
  );

  ls_slice #(
      .T(flags_t)
  ) u_next (
      .clk_i,
      .rst_ni,
      .valid_i(next_valid),
      .ready_o(next_ready),
      .data_i (next),
      .valid_o(flags_valid),
      .ready_i(decision_ready),
      .data_o (flags)
  );

  assign decision_valid = queued_valid && flags_valid;

  always_comb begin
    decision = queued;
    decision.verdict = flags.verdict;
    decision.is_patched = flags.is_patched;
    decision.is_v6 = flags.is_v6;
    decision.is_vlan = flags.is_vlan;
  end

  always_ff @(posedge clk_i) decision_taken_o <= rst_ni && decision_ready;

  ls_emit u_emit (
      .clk_i,
      .rst_ni,
      .decision_valid_i(decision_valid),
      .decision_ready_o(decision_ready),
      .decision_i(decision),
      .frame_valid_i,
      .frame_ready_o,
      .frame_i,
      .patch_valid_i,
      .patch_ready_o,
      .patch_i,
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
    if (rst_ni) assert (!decision_valid_i || (decisions_ready && flags_ready)) else $error("a decision was lost");
`endif

endmodule
