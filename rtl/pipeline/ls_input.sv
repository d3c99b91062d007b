// SPDX-License-Identifier: Apache-2.0
//
// Input of the pipeline: a register for the beats from the network, the queue in which frames wait for their decision,
// and ls_window.
//
// Interface: s_axis is the AXI-Stream of the network. Each beat is also given out by beat_valid_o and beat_o, without
// back-pressure; begins_o is 1 with the first beat of a frame. window_o is the output of ls_window, one for each frame.
// The input stops during a reset, while the queue is full, and while more than Frames - 4 frames have had their window
// and wait for decision_taken_i.
// Latency: one cycle to beat_o, two to the window. Throughput: one beat in each cycle.

module ls_input
  import ls_pipeline_pkg::*;
#(
    parameter int unsigned FrameBeatsMax = 24,
    parameter int unsigned FrameFifoBeats = 512,  // power of two, at least 4 * FrameBeatsMax
    parameter int unsigned Frames = 64  // power of two, 8 or more
) (
    input logic clk_i,
    input logic rst_ni,

    input logic s_axis_tvalid,
    output logic s_axis_tready,
    input logic [BeatBits-1:0] s_axis_tdata,
    input logic [BeatBytes-1:0] s_axis_tkeep,
    input logic s_axis_tlast,

    output logic  beat_valid_o,
    output beat_t beat_o,
    output logic  begins_o,

    output logic window_valid_o,
    output window_t window_o,

    output logic  frame_valid_o,
    input  logic  frame_ready_i,
    output beat_t frame_o,

    input logic decision_taken_i
);

  if (FrameFifoBeats < 4 * FrameBeatsMax || $countones(FrameFifoBeats) != 1) begin : gen_wrong_fifo
    $fatal(1, "FrameFifoBeats must be a power of two, and at least 4 * FrameBeatsMax");
  end
  if (Frames < 8 || $countones(Frames) != 1) begin : gen_wrong_frames
    $fatal(1, "Frames must be a power of two, and at least 8");
  end

  localparam int unsigned CountBits = $clog2(Frames) + 1;
  // A frame of one beat is counted in is_open_q four cycles after its beat was taken in, so four frames may come in
  // that is_open_q does not count yet.
  localparam int unsigned Uncounted = 4;

  logic [CountBits-1:0] open_q;  // frames whose window was given out, and whose decision was not taken
  logic is_open_q, fifo_ready, takes, valid_q, begins_q, is_begun_q;
  beat_t beat_q;

  assign s_axis_tready = fifo_ready && is_open_q;
  assign takes = s_axis_tvalid && s_axis_tready;
  assign beat_valid_o = valid_q;
  assign beat_o = beat_q;
  assign begins_o = begins_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      valid_q <= 1'b0;
      begins_q <= 1'b0;
      is_begun_q <= 1'b0;
      open_q <= '0;
      is_open_q <= 1'b0;
    end else begin
      valid_q <= takes;
      begins_q <= takes && !is_begun_q;
      if (takes) is_begun_q <= !s_axis_tlast;
      open_q <= open_q + CountBits'(window_valid_o) - CountBits'(decision_taken_i);
      is_open_q <= open_q <= CountBits'(Frames - Uncounted);
    end
  end

  always_ff @(posedge clk_i) begin
    if (!SkipsIdle || s_axis_tvalid) beat_q <= '{last: s_axis_tlast, keep: s_axis_tkeep, data: s_axis_tdata};
  end

  // One beat may be in beat_q when ready_o of the queue becomes 0.
  ls_ram_fifo #(
      .T(beat_t),
      .Depth(FrameFifoBeats),
      .Slack(1),
      .SkipsIdle(SkipsIdle)
  ) u_frames (
      .clk_i,
      .rst_ni,
      .valid_i(valid_q),
      .ready_o(fifo_ready),
      .data_i (beat_q),
      .valid_o(frame_valid_o),
      .ready_i(frame_ready_i),
      .data_o (frame_o)
  );

  ls_window #(
      .FrameBeatsMax(FrameBeatsMax)
  ) u_window (
      .clk_i,
      .rst_ni,
      .beat_valid_i(valid_q),
      .beat_i(beat_q),
      .valid_o(window_valid_o),
      .window_o
  );

`ifndef SYNTHESIS
  always_ff @(posedge clk_i)
    if (rst_ni) assert (open_q <= CountBits'(Frames)) else $error("more frames than decisions are under way");
`endif

endmodule
