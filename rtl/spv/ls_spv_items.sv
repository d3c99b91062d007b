// SPDX-License-Identifier: Apache-2.0
//
// Finds the items of a native `roots` request while its frame comes in: gives out each TXID in the cycle of the beat
// that completes its item, so that the look-up can begin before the frame has ended. Items have 72 bytes, so a beat
// completes at most one. Nothing else of the frame is checked here: ls_spv_request decides whether it is a request.
//
// Interface: beat_i is taken in each cycle in which beat_valid_i is 1; there is no back-pressure. Item n is given out
// if the frame has all of its bytes and n is below the count in the head and below SpvRootsMax.
// Latency: eight cycles from the beat, as many as ls_window and ls_classify take from the last beat of a frame to its
// datagram. Throughput: one beat in each cycle.

module ls_spv_items
  import ls_pkg::*;
  import ls_pipeline_pkg::*;
  import ls_spv_pkg::*;
(
    input logic clk_i,
    input logic rst_ni,

    input logic  beat_valid_i,
    input beat_t beat_i,

    output item_t item_o,
    output logic [255:0] txid_o
);

  localparam int unsigned ItemBits = 8 * RootItemBytes;
  // The last byte of an item is at byte 1 or 5 of a lane of eight bytes, because all headers are of that kind.
  localparam int unsigned LaneBytes = 8;
  localparam int unsigned LastAt = 1;
  localparam int unsigned Lanes = BeatBytes / LaneBytes;
  // First byte of an item that ends at byte LastAt of a beat, counted from the beginning of the second beat before it.
  localparam int unsigned FirstAt = 2 * BeatBytes + LastAt + 1 - RootItemBytes;
  localparam int unsigned FineLanes = 4;
  localparam int unsigned CoarsePlaces = 2 * Lanes / FineLanes;
  localparam int unsigned AlignedBits = 8 * (RootItemBytes + LaneBytes * (FineLanes - 1));
  localparam int unsigned DelayCycles = 4;
  localparam int unsigned PartBits = 16;  // of the comparison with zero
  localparam int unsigned RestAt = 8 * RootItemBlockHashAt;  // all bytes of a request's item after the TXID are zero
  localparam int unsigned RestParts = (ItemBits - RestAt) / PartBits;
  localparam int unsigned PositionBits = $clog2(4 * BeatBytes);

  // ---- position in the frame ----

  logic is_start_q, is_second_q;  // the next beat is the first, the second
  logic is_vlan_d, is_v6_d, is_vlan_q, is_v6_q;
  logic [PositionBits-1:0] end_d, end_q;  // last byte of the item, counted from the beginning of the next beat
  logic [4:0] index_q;
  logic [7:0] count_d, count_q;
  logic [15:0] outer_type;
  logic completes;

  assign outer_type = be16(beat_i.data[8*12+:16]);
  assign is_vlan_d = outer_type inside {EtherTypeVlan, EtherTypeQinq};
  assign is_v6_d = (is_vlan_d ? be16(beat_i.data[8*16+:16]) : outer_type) == EtherTypeIpv6;
  assign completes = !is_start_q && end_q < PositionBits'(BeatBytes) && index_q < 5'(SpvRootsMax) &&
                     8'(index_q) < count_q;

  always_comb begin
    int unsigned payload_at;
    payload_at = 0;
    end_d = '0;
    count_d = '0;
    // One case for each position of the payload, so that the synthesis sees constants.
    for (int unsigned kind = 0; kind < 4; kind++) begin
      payload_at = BodyFirst + VlanBytes * (kind % 2) + (Ipv6Bytes - Ipv4Bytes) * (kind / 2);
      if ({is_v6_d, is_vlan_d} == 2'(kind)) begin
        end_d = PositionBits'(payload_at + NativeHeaderBytes + RootsHeadBytes + RootItemBytes - 1 - BeatBytes);
      end
      if ({is_v6_q, is_vlan_q} == 2'(kind)) begin
        count_d = beat_i.data[8*(payload_at+NativeHeaderBytes+RootsHeadCountAt+3-BeatBytes)+:8];
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      is_start_q  <= 1'b1;
      is_second_q <= 1'b0;
    end else if (beat_valid_i) begin
      is_start_q  <= beat_i.last;
      is_second_q <= is_start_q && !beat_i.last;
    end
  end

  always_ff @(posedge clk_i) begin
    if (beat_valid_i) begin
      if (is_start_q) begin
        is_vlan_q <= is_vlan_d;
        is_v6_q <= is_v6_d;
        end_q <= end_d;
        index_q <= '0;
      end else begin
        if (end_q < PositionBits'(BeatBytes)) end_q <= end_q + PositionBits'(RootItemBytes - BeatBytes);
        else end_q <= end_q - PositionBits'(BeatBytes);
        if (completes) index_q <= index_q + 1'b1;
      end
      if (is_second_q) count_q <= count_d;
    end
  end

  // ---- bytes of the item ----

  logic [3*BeatBits-1:0] bytes_q;  // of the last three beats
  item_t [2:0] found_q;
  // Place of the item in bytes_q: in multiples of FineLanes lanes, with or without four bytes more, and then in lanes.
  // In each of them, one bit is 1.
  logic [CoarsePlaces-1:0] coarse_q;
  logic [1:0][FineLanes-1:0] fine_q;
  logic [AlignedBits-1:0] aligned_q;
  logic [AlignedBits-1:0] aligned_d;
  logic [ItemBits-1:0] whole_d, whole_q;
  item_t complete_q, checked_q;
  logic [RestParts-1:0] is_zero_q;
  logic [255:0] txid_q;

  always_comb begin
    aligned_d = '0;
    for (int unsigned i = 0; i < CoarsePlaces; i++) begin
      if (coarse_q[i]) aligned_d |= bytes_q[8*(FirstAt+4*(i%2)+LaneBytes*FineLanes*(i/2))+:AlignedBits];
    end
    whole_d = '0;
    for (int unsigned i = 0; i < FineLanes; i++) begin
      if (fine_q[1][i]) whole_d |= aligned_q[8*LaneBytes*i+:ItemBits];
    end
  end

  always_ff @(posedge clk_i) begin
    if (beat_valid_i) bytes_q <= {beat_i.data, bytes_q[3*BeatBits-1:BeatBits]};
    found_q[0].valid <= rst_ni && beat_valid_i && completes;
    found_q[0].is_first <= index_q == '0;
    found_q[0].is_last <= 8'(index_q) + 8'd1 == count_q;
    found_q[0].is_v6 <= is_v6_q;
    found_q[0].is_vlan <= is_vlan_q;
    found_q[0].is_clean <= 1'b0;
    coarse_q <= CoarsePlaces'(1'b1) << {end_q[$clog2(BeatBytes)-1:$clog2(LaneBytes*FineLanes)], end_q[2]};
    fine_q <= {fine_q[0], FineLanes'(1'b1) << end_q[$clog2(LaneBytes)+:$clog2(FineLanes)]};
    aligned_q <= aligned_d;
    whole_q <= whole_d;
    found_q[2:1] <= found_q[1:0];
    complete_q <= found_q[2];
    for (int unsigned i = 0; i < RestParts; i++) is_zero_q[i] <= whole_q[RestAt+PartBits*i+:PartBits] == '0;
    checked_q <= complete_q;
    checked_q.is_clean <= &is_zero_q;
    txid_q <= whole_q[8*RootItemRootAt+:256];
  end

  // ---- delay ----

  ls_delay #(
      .T(item_t),
      .Cycles(DelayCycles - 1)
  ) u_item_delay (
      .clk_i,
      .valid_i(1'b1),
      .data_i(checked_q),
      .data_o(item_o)
  );

  ls_delay #(
      .T(logic [255:0]),
      .Cycles(DelayCycles)
  ) u_txid_delay (
      .clk_i,
      .valid_i(1'b1),
      .data_i(txid_q),
      .data_o(txid_o)
  );

endmodule
