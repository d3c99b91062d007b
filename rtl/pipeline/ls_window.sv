// SPDX-License-Identifier: Apache-2.0
//
// Collects the first WindowBeats beats of each frame and measures the frame.
//
// Interface: beat_i is taken in each cycle in which beat_valid_i is 1; there is no back-pressure. Each frame gives
// exactly one window, in order: when its last beat was taken in or, for a frame of more than FrameBeatsMax beats, when
// beat FrameBeatsMax was. tkeep of a last beat has its ones at the low end, as AXI-Stream sources of frames send it.
// Latency: one cycle from the deciding beat. Throughput: one beat, and so at most one frame, in each cycle.

module ls_window
  import ls_pipeline_pkg::*;
#(
    parameter int unsigned FrameBeatsMax = 24
) (
    input logic clk_i,
    input logic rst_ni,

    input logic  beat_valid_i,
    input beat_t beat_i,

    output logic valid_o,
    output window_t window_o
);

  localparam int unsigned CountBits = $clog2(FrameBeatsMax + 1);

  logic [CountBits-1:0] beats_q;  // beats of this frame so far
  // Bit i: the next beat has number i. A bit enables registers also while there is no beat, because the beat with this
  // number replaces what they hold.
  logic [WindowBeats-1:0] place_q;
  logic is_decided_q;  // the window of this frame was given out before its last beat
  logic [WindowBeats-2:0][BeatBits-1:0] earlier_q;
  logic is_full, valid_d;
  logic [6:0] kept;

  assign is_full = beats_q == CountBits'(FrameBeatsMax - 1) && !beat_i.last;
  assign valid_d = beat_valid_i && !is_decided_q && (beat_i.last || is_full);

  // Number of ones, which are at the low end of keep: bit b of the number changes at each multiple of 2^b.
  always_comb begin
    kept = '0;
    for (int unsigned b = 0; b <= $clog2(BeatBytes); b++) begin
      for (int unsigned i = 1 << b; i <= BeatBytes; i += 1 << b) kept[b] = kept[b] ^ beat_i.keep[i-1];
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      beats_q <= '0;
      place_q <= WindowBeats'(1);
      is_decided_q <= 1'b0;
      valid_o <= 1'b0;
    end else begin
      valid_o <= valid_d;
      if (beat_valid_i) begin
        is_decided_q <= !beat_i.last && (is_decided_q || is_full);
        place_q <= beat_i.last ? WindowBeats'(1) : place_q << 1;
        if (beat_i.last) beats_q <= '0;
        else if (!is_full) beats_q <= beats_q + 1'b1;
      end
    end
  end

  logic [WindowBeats-2:0][BeatBits-1:0] data_d;
  logic [15:0] outer_type;

  always_comb begin
    if (SkipsIdle && !valid_d) data_d = '0;
    else for (int unsigned i = 0; i < WindowBeats - 1; i++) data_d[i] = place_q[i] ? beat_i.data : earlier_q[i];
  end
  // All proofs but that of this module have beats of at least 14 bytes; in that one, the EtherType is in the second beat.
  assign outer_type = be16(data_d[8*12/BeatBits][8*12%BeatBits+:16]);

  always_ff @(posedge clk_i) begin
    for (int unsigned i = 0; i < WindowBeats - 1; i++) begin
      if (place_q[i] && (!SkipsIdle || beat_valid_i)) earlier_q[i] <= beat_i.data;
    end
    if (!SkipsIdle || valid_d) begin
      window_o.is_oversize <= is_full;
      window_o.is_vlan <= outer_type inside {EtherTypeVlan, EtherTypeQinq};
      window_o.bytes <= 16'(beats_q) * 16'(BeatBytes) + 16'(kept);
      for (int unsigned i = 0; i < WindowBeats - 1; i++) window_o.data[BeatBits*i+:BeatBits] <= data_d[i];
    end
    // The window of a longer frame keeps its last beat.
    if (place_q != '0 && (!SkipsIdle || beat_valid_i)) begin
      window_o.data[BeatBits*(WindowBeats-1)+:BeatBits] <= beat_i.data;
    end
  end

endmodule
