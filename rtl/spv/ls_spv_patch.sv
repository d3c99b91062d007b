// SPDX-License-Identifier: Apache-2.0
//
// Keeps the answers of the items of native `roots` requests, and makes patches of them, which ls_emit puts into the
// frames of the replies. The head of such a reply and its headers are the matter of ls_emit.
//
// Interface: the answer of an item (block_i) is stored when item_i.valid is 1. The answers since the first item of the
// frame become those of a reply when keep_i is 1, in the cycle of the last item or later; the first item of the next
// frame discards the others. There is no back-pressure: Depth must be at least the number of beats that are stored
// between input and output, of which an item has more than one.
// Patches leave by ready/valid: for each reply one for each beat, from the second one to that with the end of the last
// item. A patch is made only if the queue in front of the output has a place for it, so no stage waits.
// Latency: the first patch is there ten cycles after keep_i. Throughput: one patch in each cycle.

module ls_spv_patch
  import ls_pkg::*;
  import ls_pipeline_pkg::*;
  import ls_spv_pkg::*;
#(
    parameter int unsigned Depth = 512,  // power of two
    parameter Style = "block"
) (
    input logic clk_i,
    input logic rst_ni,

    input item_t item_i,
    input block_t block_i,
    input logic keep_i,

    output logic   patch_valid_o,
    input  logic   patch_ready_i,
    output patch_t patch_o
);

  localparam int unsigned AddressBits = $clog2(Depth);
  localparam int unsigned ItemBits = 8 * RootItemBytes;
  localparam int unsigned LaneBytes = 8;
  localparam int unsigned Lanes = RootItemBytes / LaneBytes;
  localparam int unsigned TailBits = $clog2(RootItemBytes + 1);

  // Answer of an item. Its status is zero.
  typedef struct packed {
    logic is_last;
    logic [TailBits-1:0] head;  // bytes of the headers and of the head in the second beat of its frame
    logic [31:0] height;
    logic [255:0] hash;
    logic [255:0] root;
  } answer_t;

  // ---- answers in a RAM ----

  localparam int unsigned AheadMax = 8;
  localparam int unsigned AheadBits = $clog2(AheadMax) + 1;

  answer_t written, written_q, ahead, answer;
  logic [AddressBits:0] kept_q, readable_q, write_q, read_q, write, next_write;
  logic [AddressBits-1:0] write_address_q;
  logic [$bits(answer_t)-1:0] read_data;
  logic is_written_q, fetch, ahead_has_space, ahead_valid, ahead_ready, answer_valid, answer_ready;
  logic [1:0] fetched_q;
  logic [AheadBits-1:0] waiting_q, unused_count;

  assign written.is_last = item_i.is_last;
  always_comb begin
    written.head = '0;
    for (int unsigned kind = 0; kind < 4; kind++) begin
      if ({item_i.is_v6, item_i.is_vlan} == 2'(kind)) begin
        written.head = TailBits'(BodyFirst + VlanBytes * (kind % 2) + (Ipv6Bytes - Ipv4Bytes) * (kind / 2) +
                                 NativeHeaderBytes + RootsHeadBytes - BeatBytes);
      end
    end
  end
  assign written.height = be32(block_i.height);
  assign written.hash = block_i.hash;
  assign written.root = block_i.root;

  assign write = item_i.is_first ? kept_q : write_q;
  assign next_write = item_i.valid ? write + 1'b1 : write_q;
  assign fetch = readable_q != read_q && waiting_q < AheadBits'(AheadMax);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      kept_q <= '0;
      readable_q <= '0;
      write_q <= '0;
      read_q <= '0;
      is_written_q <= 1'b0;
      fetched_q <= '0;
      waiting_q <= '0;
    end else begin
      write_q <= next_write;
      is_written_q <= item_i.valid;
      if (keep_i) kept_q <= next_write;
      readable_q <= kept_q;
      if (fetch) read_q <= read_q + 1'b1;
      fetched_q <= {fetched_q[0], fetch};
      waiting_q <= waiting_q + AheadBits'(fetch) - AheadBits'(ahead_valid && ahead_ready);
    end
  end

  always_ff @(posedge clk_i) begin
    write_address_q <= write[AddressBits-1:0];
    if (!SkipsIdle || item_i.valid) written_q <= written;
  end

  ls_ram #(
      .Width($bits(answer_t)),
      .Depth(Depth),
      .NeverCollides(1'b1),
      .Style(Style)
  ) u_ram (
      .clk_i,
      .write_i(is_written_q),
      .write_address_i(write_address_q),
      .write_data_i(written_q),
      .read_i(fetch),
      .read_address_i(read_q[AddressBits-1:0]),
      .read_data_o(read_data)
  );

  ls_fifo #(
      .T(answer_t),
      .Depth(AheadMax),
      .HasRoom(1'b1)
  ) u_ahead (
      .clk_i,
      .rst_ni,
      .valid_i(fetched_q[1]),
      .ready_o(ahead_has_space),
      .data_i (answer_t'(read_data)),
      .valid_o(ahead_valid),
      .ready_i(ahead_ready),
      .data_o (ahead),
      .count_o(unused_count)
  );

  ls_skid #(
      .T(answer_t)
  ) u_answer (
      .clk_i,
      .rst_ni,
      .valid_i(ahead_valid),
      .ready_o(ahead_ready),
      .data_i (ahead),
      .valid_o(answer_valid),
      .ready_i(answer_ready),
      .data_o (answer)
  );

  // ---- patches ----

  // Bytes for a beat: those that its patch needs, and up to three lanes before and after them.
  localparam int unsigned CoarseLanes = 4;
  localparam int unsigned CoarseBits = ItemBits + 8 * LaneBytes * (CoarseLanes - 1);
  localparam int unsigned LaneBits = TailBits - $clog2(LaneBytes);
  localparam int unsigned Coarse = (Lanes + CoarseLanes - 1) / CoarseLanes;
  localparam int unsigned PatchesMax = 8;
  localparam int unsigned PatchesBits = $clog2(PatchesMax) + 1;

  typedef struct packed {
    logic is_end;
    logic is_inside;
    logic is_tail;
    logic [TailBits-1:0] tail;
    logic [CoarseBits-1:0] data;
  } coarse_t;

  logic is_inside_q;  // current_q is an answer of which bytes are still to come
  logic needs_answer_q;  // the next answer begins in this beat
  answer_t current_q;
  logic [TailBits-1:0] tail_q, tail;  // bytes of current_q, or of the headers, in the beats to come
  logic [LaneBits-1:0] lanes, next_lanes;  // whole lanes of them; the rest is the same in all beats of a frame
  logic [Coarse-1:0] place_q, place;  // of the bytes for the beat in `pair`, in multiples of four lanes; one bit is 1
  logic is_tail, makes_patch, coarse_valid_q, patch_valid_q, patches_have_room;
  logic [2*ItemBits+CoarseBits-1:0] pair;
  coarse_t coarse, coarse_q;
  patch_t patch, patch_q;
  // Patches that were made and have not left; there is room for one more, also if one was made one cycle ago.
  logic [PatchesBits-1:0] held_q, unused_patches;
  logic has_room_q;

  assign pair[2*ItemBits+:CoarseBits] = '0;
  assign pair[ItemBits+:ItemBits] = {32'd0, answer.height, answer.hash, answer.root};
  assign pair[0+:ItemBits] = {32'd0, current_q.height, current_q.hash, current_q.root};
  assign is_tail = is_inside_q && current_q.is_last;
  assign makes_patch = has_room_q && (!needs_answer_q || answer_valid);
  assign answer_ready = needs_answer_q && has_room_q;
  assign tail = is_inside_q ? tail_q : answer.head;
  // An item has one lane more than a beat. So with each beat, the number of whole lanes rises by one if an answer is
  // added, and falls from all lanes of an item but one to none if not.
  assign lanes = tail[TailBits-1-:LaneBits];
  assign next_lanes = lanes == LaneBits'(Lanes - 1) ? '0 : lanes + 1'b1;

  // Returns the place of bytes that have a number of whole lanes, with one bit that is 1.
  function automatic logic [Coarse-1:0] place_of(input logic [LaneBits-1:0] whole);
    place_of = '0;
    for (int unsigned lane = 0; lane < Lanes; lane++) begin
      if (whole == LaneBits'(lane)) place_of[(Lanes-1-lane)/CoarseLanes] = 1'b1;
    end
  endfunction

  assign place = is_inside_q ? place_q : place_of(answer.head[TailBits-1-:LaneBits]);

  // Byte 0 of the beat is byte RootItemBytes - tail of `pair`: first a choice among multiples of four lanes.
  always_comb begin
    coarse.is_end = is_tail && tail_q < TailBits'(BeatBytes);
    coarse.is_inside = is_inside_q;
    coarse.is_tail = is_tail;
    coarse.tail = tail;
    coarse.data = '0;
    for (int unsigned i = 0; i < Coarse; i++) begin
      if (place[i]) coarse.data |= pair[8*LaneBytes*CoarseLanes*i+:CoarseBits];
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      is_inside_q <= 1'b0;
      needs_answer_q <= 1'b1;
      coarse_valid_q <= 1'b0;
      patch_valid_q <= 1'b0;
      held_q <= '0;
      has_room_q <= 1'b1;
    end else begin
      if (makes_patch) begin
        is_inside_q <= !coarse.is_end;
        needs_answer_q <= coarse.is_end ||
                          (!(needs_answer_q ? answer.is_last : current_q.is_last) &&
                           next_lanes != LaneBits'(Lanes - 1));
      end
      coarse_valid_q <= makes_patch;
      patch_valid_q <= coarse_valid_q;
      held_q <= held_q + PatchesBits'(makes_patch) - PatchesBits'(patch_valid_o && patch_ready_i);
      has_room_q <= held_q < PatchesBits'(PatchesMax - 1);
    end
  end

  always_ff @(posedge clk_i) begin
    if (makes_patch && needs_answer_q) current_q <= answer;
    if (makes_patch) begin
      tail_q  <= {next_lanes, tail[TailBits-LaneBits-1:0]};
      place_q <= place_of(next_lanes);
    end
    if (!SkipsIdle || makes_patch) coarse_q <= coarse;
    if (!SkipsIdle || coarse_valid_q) patch_q <= patch;
  end

  // Then the lane, and the place in it: the tail is 2 or 6 more than a number of whole lanes.
  always_comb begin
    logic [ItemBits-1:0] bytes;
    bytes = '0;
    for (int unsigned lane = 0; lane < CoarseLanes; lane++) begin
      if (coarse_q.tail[$clog2(LaneBytes)+:2] == 2'((Lanes - 1 - lane) % CoarseLanes)) begin
        bytes = coarse_q.data[8*LaneBytes*lane+:ItemBits];
      end
    end
    patch.data = coarse_q.tail[2] ? bytes[8*2+:BeatBits] : bytes[8*6+:BeatBits];
    for (int unsigned word = 0; word < BeatBytes / 2; word++) begin
      patch.mask[word] = TailBits'(2 * word) < coarse_q.tail ? coarse_q.is_inside : !coarse_q.is_tail;
    end
    patch.is_end = coarse_q.is_end;
  end

  ls_fifo #(
      .T(patch_t),
      .Depth(PatchesMax),
      .HasRoom(1'b1)
  ) u_patches (
      .clk_i,
      .rst_ni,
      .valid_i(patch_valid_q),
      .ready_o(patches_have_room),
      .data_i (patch_q),
      .valid_o(patch_valid_o),
      .ready_i(patch_ready_i),
      .data_o (patch_o),
      .count_o(unused_patches)
  );

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (!fetched_q[1] || ahead_has_space) else $error("an answer was read without space for it");
      assert (!item_i.valid || (write - read_q) < (AddressBits + 1)'(Depth)) else $error("an answer was overwritten");
      assert (!patch_valid_q || patches_have_room) else $error("a patch was lost");
    end
  end
`endif

endmodule
