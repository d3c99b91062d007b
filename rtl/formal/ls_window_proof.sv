// SPDX-License-Identifier: Apache-2.0
//
// Proof of ls_window: each frame gives exactly one window, in order, one cycle after its last beat or its beat
// FrameBeatsMax; the window has the length of the frame and its first four beats, and says whether it has a VLAN tag.
//
// The proof uses beats of 8 bytes and frames of at most 6 beats.
// Assumed: tkeep is all ones except in the last beat of a frame, where its ones are at the low end.

module ls_window_proof
  import ls_pipeline_pkg::*;
#(
    parameter int unsigned FrameBeatsMax = 6
) (
    input logic clk_i,
    input logic rst_ni,

    input logic beat_valid_i,
    input beat_t beat_i,
    input logic [6:0] kept_i  // bytes of the beat: free, so that tkeep takes every value that is allowed
);

  logic valid;
  window_t window;

  ls_window #(
      .FrameBeatsMax(FrameBeatsMax)
  ) u_dut (
      .clk_i,
      .rst_ni,
      .beat_valid_i,
      .beat_i,
      .valid_o(valid),
      .window_o(window)
  );

  logic is_first_q = 1'b1;
  logic was_reset_q, is_taken_q;
  logic [7:0] taken_q;  // beats of the frame so far, at most FrameBeatsMax
  logic [WindowBeats-1:0][BeatBits-1:0] beats_q, frame_q;
  logic [7:0] beats_d;
  logic ends_q, has_window_q, is_long_q;
  logic [15:0] bytes_q;

  assign beats_d = taken_q == 8'(FrameBeatsMax) ? taken_q : taken_q + 8'd1;

  always_ff @(posedge clk_i) begin
    is_first_q <= 1'b0;
    was_reset_q <= !rst_ni;
    is_taken_q <= rst_ni && beat_valid_i;
    if (!rst_ni) begin
      taken_q <= '0;
      has_window_q <= 1'b0;
    end else begin
      if (beat_valid_i) begin
        taken_q <= beat_i.last ? '0 : beats_d;
        if (taken_q < 8'(WindowBeats)) beats_q[taken_q[1:0]] <= beat_i.data;
      end
      // A window belongs to the frame of the beat before it.
      if (is_taken_q && ends_q) has_window_q <= 1'b0;
      else if (valid) has_window_q <= 1'b1;
    end
    // The frame as it is after this beat.
    ends_q <= beat_i.last;
    is_long_q <= taken_q == 8'(FrameBeatsMax) || (beats_d == 8'(FrameBeatsMax) && !beat_i.last);
    bytes_q <= 16'(BeatBytes) * 16'(taken_q) + 16'(kept_i);
    frame_q <= beats_q;
    if (taken_q < 8'(WindowBeats)) frame_q[taken_q[1:0]] <= beat_i.data;
  end

  always_comb begin
    assume (!is_first_q || !rst_ni);
    assume (kept_i != '0 && kept_i <= 7'(BeatBytes));
    assume (beat_i.last || kept_i == 7'(BeatBytes));
    for (int unsigned i = 0; i < BeatBytes; i++) assume (beat_i.keep[i] == (7'(i) < kept_i));
  end

  always_comb begin
    if (!is_first_q && was_reset_q) assert (!valid);
    if (!is_first_q && !was_reset_q) begin
      // A window comes only after a beat, only once for each frame, and no later than its last beat.
      if (valid) assert (is_taken_q && !has_window_q && (ends_q || is_long_q));
      if (is_taken_q && ends_q) assert (valid != has_window_q);
      if (is_taken_q && is_long_q) assert (valid || has_window_q);
      if (valid) begin
        assert (window.is_oversize == is_long_q);
        if (!is_long_q) begin
          assert (window.bytes == bytes_q);
          // Bytes after the end of the frame are undefined.
          assert (window.data[0+:BeatBits] == frame_q[0]);
          if (bytes_q > 16'(BeatBytes)) assert (window.data[BeatBits+:BeatBits] == frame_q[1]);
          if (bytes_q > 16'(2*BeatBytes)) assert (window.data[2*BeatBits+:BeatBits] == frame_q[2]);
          if (bytes_q >= 16'd14) begin
            assert (window.is_vlan == ({window.data[8*12+:8], window.data[8*13+:8]} inside {16'h8100, 16'h88a8}));
          end
          if (bytes_q > 16'(3*BeatBytes)) assert (window.data[3*BeatBits+:BeatBits] == frame_q[3]);
        end
      end
    end
  end

  // Relations between the registers of the module and of the proof, which make the induction possible.
  always_comb begin
    if (!is_first_q) begin
      assert (taken_q <= 8'(FrameBeatsMax));
      assert (u_dut.is_decided_q == (taken_q == 8'(FrameBeatsMax)));
      assert (u_dut.place_q == (taken_q < 8'(WindowBeats) ? 4'd1 << taken_q : 4'd0));
      assert (8'(u_dut.beats_q) == (u_dut.is_decided_q ? 8'(FrameBeatsMax - 1) : taken_q));
      if (!was_reset_q) begin
        assert (u_dut.is_decided_q == (is_taken_q && ends_q ? 1'b0 : has_window_q || valid));
        if (taken_q > 0) assert (u_dut.earlier_q[0] == beats_q[0]);
        if (taken_q > 1) assert (u_dut.earlier_q[1] == beats_q[1]);
        if (taken_q > 2) assert (u_dut.earlier_q[2] == beats_q[2]);
        if (taken_q > 3) assert (window.data[3*BeatBits+:BeatBits] == beats_q[3]);
      end
    end
  end

endmodule
