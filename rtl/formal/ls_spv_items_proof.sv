// SPDX-License-Identifier: Apache-2.0
//
// Proof of ls_spv_items for the first six beats of the first frame after a reset, in 16 cycles, with pauses. Eight
// cycles after the beat with the last byte of an item, and in no other cycle, the item is given out, if it is one of
// the count in the head. It has its TXID at its place, and is clean exactly if the rest of it is zero. There is a task
// for each of IPv4 and IPv6, with and without a VLAN tag.
//
// Narrow: one bit of each byte is free, and six bits of the count; the rest is 0.

module ls_spv_items_proof
  import ls_pkg::*;
  import ls_pipeline_pkg::*;
  import ls_spv_pkg::*;
#(
    parameter bit V6 = 1'b0,
    parameter bit Vlan = 1'b0
) (
    input logic clk_i,
    input logic rst_ni,

    input logic beat_valid_i,
    input logic last_i,
    input logic [BeatBytes-1:0] bits_i,
    input logic [5:0] count_i
);

  // Payload behind 14 bytes of Ethernet, 4 of a tag, 20 or 40 of IP and 8 of UDP; items behind 16 and 40 more.
  localparam int unsigned ItemsAt = 98 + (Vlan ? 4 : 0) + (V6 ? 20 : 0);
  localparam logic [15:0] Type = V6 ? 16'hdd86 : 16'h0008;  // as on the wire, first byte low

  logic is_over_q;  // the first frame has ended
  logic [2:0] beats_q;  // of the first frame
  beat_t beat;

  always_comb begin
    beat.last = last_i;
    beat.keep = '1;
    for (int unsigned i = 0; i < BeatBytes; i++) beat.data[8*i+:8] = 8'(bits_i[i]);
    if (beats_q == 3'd0) begin
      beat.data[8*12+:16] = Vlan ? 16'h0081 : Type;
      if (Vlan) beat.data[8*16+:16] = Type;
    end
    if (beats_q == 3'd1) beat.data[8*(ItemsAt-1-BeatBytes)+:8] = 8'(count_i);
  end

  item_t item;
  logic [255:0] txid;

  ls_spv_items u_dut (
      .clk_i,
      .rst_ni,
      .beat_valid_i,
      .beat_i(beat),
      .item_o(item),
      .txid_o(txid)
  );

  localparam int unsigned Latency = 8;

  // The first frame, of which the beats until its end are kept, at most six.
  localparam int unsigned Beats = 6;
  logic is_start_q = 1'b1;  // no cycle is over
  logic [Beats-1:0][BeatBits-1:0] frame_q, frame;

  logic takes;
  assign takes = rst_ni && beat_valid_i && !is_over_q;

  always_comb begin
    frame = frame_q;
    if (takes && beats_q < 3'(Beats)) frame[beats_q] = beat.data;
  end

  logic [8*Beats*BeatBytes-1:0] bytes;
  logic [7:0] count;
  assign bytes = frame;
  assign count = bytes[8*(ItemsAt-1)+:8];

  typedef struct packed {
    logic is_known;  // the beat belongs to the first six of the first frame
    logic valid;
    logic is_first;
    logic is_last;
    logic is_clean;
    logic [255:0] txid;
  } expected_t;

  expected_t now;
  expected_t [Latency:1] past_q;

  always_comb begin
    now = '0;
    now.is_known = takes && beats_q < 3'(Beats);
    if (now.is_known) begin
      for (int unsigned n = 0; n < (Beats * BeatBytes - ItemsAt) / 72; n++) begin
        if ((ItemsAt + 72 * n + 71) / BeatBytes == 32'(beats_q) && 8'(n) < count) begin
          now.valid = 1'b1;
          now.is_first = n == 0;
          now.is_last = count == 8'(n + 1);
          now.txid = bytes[8*(ItemsAt+72*n)+:256];
          now.is_clean = bytes[8*(ItemsAt+72*n+32)+:320] == '0;
        end
      end
    end
  end

  always_ff @(posedge clk_i) begin
    is_start_q <= 1'b0;
    past_q <= {past_q[Latency-1:1], now};
    frame_q <= frame;
    if (!rst_ni) begin
      beats_q <= '0;
      is_over_q <= 1'b0;
      for (int unsigned age = 1; age <= Latency; age++) past_q[age].is_known <= 1'b0;
    end else if (takes) begin
      if (beats_q < 3'(Beats)) beats_q <= beats_q + 1'b1;
      if (last_i) is_over_q <= 1'b1;
    end
  end

  expected_t a;
  assign a = past_q[Latency];

  always_comb begin
    assume (rst_ni == !is_start_q);
    if (!is_start_q && a.is_known) begin
      assert (item.valid == a.valid);
      if (a.valid) begin
        assert (item.is_first == a.is_first && item.is_last == a.is_last && item.is_clean == a.is_clean);
        assert (item.is_v6 == V6 && item.is_vlan == Vlan);
        assert (txid == a.txid);
      end
    end
  end

endmodule
