// SPDX-License-Identifier: Apache-2.0
//
// Keeps the answers of the items of native `roots` requests, and puts them into the frames of the replies, on the way
// from the queue of frames to ls_emit. The head of such a reply and its headers are the matter of ls_emit.
//
// Interface: the answer of an item (block_i) is stored when item_i.valid is 1. The answers since the first item of the
// frame become those of a reply when keep_i is 1, in the cycle of the last item or later; the first item of the next
// frame discards the others. There is no back-pressure: Depth must be at least the number of beats that are stored
// between input and output, of which an item has more than one.
// Frames pass in order, each with its decision: is_roots_i is 1 for a reply to a kept request. The decision is taken
// with the last beat of the frame; a frame waits for it.
// Latency: none for frames. The answers are ready eight cycles after keep_i, and the first beat of the reply waits for
// them, so no later one does. Throughput: one beat in each cycle.

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

    input  logic decision_valid_i,
    output logic decision_ready_o,
    input  logic is_roots_i,

    input  logic  frame_valid_i,
    output logic  frame_ready_o,
    input  beat_t frame_i,

    output logic  frame_valid_o,
    input  logic  frame_ready_i,
    output beat_t frame_o
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

  // Bytes of the beats of a frame, from the second beat on to the one with the end of the last item.
  typedef struct packed {
    logic is_end;
    logic [BeatBytes/2-1:0] mask;  // 16-bit words
    logic [BeatBits-1:0] data;
  } patch_t;

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

  // ---- beats ----

  // Bytes for a beat: those that its patch needs, and up to three lanes before and after them.
  localparam int unsigned CoarseLanes = 4;
  localparam int unsigned CoarseBits = ItemBits + 8 * LaneBytes * (CoarseLanes - 1);
  localparam int unsigned LaneBits = $clog2(Lanes);

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
  logic [TailBits-1:0] tail_q, tail, next_tail;  // bytes of current_q, or of the headers, in the beats to come
  logic is_tail, coarse_valid, coarse_ready, shifted_valid, shifted_ready, patched_valid, patched_ready;
  logic [2*ItemBits+CoarseBits-1:0] pair;
  coarse_t coarse, shifted;
  patch_t patch, patched;

  assign pair[2*ItemBits+:CoarseBits] = '0;
  assign pair[ItemBits+:ItemBits] = {32'd0, answer.height, answer.hash, answer.root};
  assign pair[0+:ItemBits] = {32'd0, current_q.height, current_q.hash, current_q.root};
  assign is_tail = is_inside_q && current_q.is_last;
  assign coarse_valid = !needs_answer_q || answer_valid;
  assign answer_ready = needs_answer_q && coarse_ready;
  assign tail = is_inside_q ? tail_q : answer.head;
  assign next_tail = needs_answer_q ? tail + TailBits'(RootItemBytes - BeatBytes) : tail_q - TailBits'(BeatBytes);

  // Byte 0 of the beat is byte RootItemBytes - tail of `pair`: first a choice among multiples of four lanes.
  always_comb begin
    coarse.is_end = is_tail && tail_q < TailBits'(BeatBytes);
    coarse.is_inside = is_inside_q;
    coarse.is_tail = is_tail;
    coarse.tail = tail;
    coarse.data = '0;
    for (int unsigned lane = 0; lane < Lanes; lane++) begin
      if (tail[TailBits-1:$clog2(LaneBytes)] == LaneBits'(lane)) begin
        coarse.data = pair[8*LaneBytes*CoarseLanes*((Lanes-1-lane)/CoarseLanes)+:CoarseBits];
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      is_inside_q <= 1'b0;
      needs_answer_q <= 1'b1;
    end else if (coarse_valid && coarse_ready) begin
      is_inside_q <= !coarse.is_end;
      needs_answer_q <= coarse.is_end ||
                        (!(needs_answer_q ? answer.is_last : current_q.is_last) && next_tail < TailBits'(BeatBytes));
    end
  end

  always_ff @(posedge clk_i) begin
    if (coarse_valid && coarse_ready) begin
      if (needs_answer_q) current_q <= answer;
      tail_q <= next_tail;
    end
  end

  ls_slice #(
      .T(coarse_t)
  ) u_coarse (
      .clk_i,
      .rst_ni,
      .valid_i(coarse_valid),
      .ready_o(coarse_ready),
      .data_i (coarse),
      .valid_o(shifted_valid),
      .ready_i(shifted_ready),
      .data_o (shifted)
  );

  // Then the lane, and the place in it: the tail is 2 or 6 more than a number of whole lanes.
  always_comb begin
    logic [ItemBits-1:0] lanes;
    lanes = '0;
    for (int unsigned lane = 0; lane < CoarseLanes; lane++) begin
      if (shifted.tail[$clog2(LaneBytes)+:2] == 2'((Lanes - 1 - lane) % CoarseLanes)) begin
        lanes = shifted.data[8*LaneBytes*lane+:ItemBits];
      end
    end
    patch.data = shifted.tail[2] ? lanes[8*2+:BeatBits] : lanes[8*6+:BeatBits];
    for (int unsigned word = 0; word < BeatBytes / 2; word++) begin
      patch.mask[word] = TailBits'(2 * word) < shifted.tail ? shifted.is_inside : !shifted.is_tail;
    end
    patch.is_end = shifted.is_end;
  end

  ls_skid #(
      .T(patch_t)
  ) u_skid (
      .clk_i,
      .rst_ni,
      .valid_i(shifted_valid),
      .ready_o(shifted_ready),
      .data_i (patch),
      .valid_o(patched_valid),
      .ready_i(patched_ready),
      .data_o (patched)
  );

  // ---- frames ----

  logic is_first_q, is_done_q, is_patched;  // first beat of a frame; all items of the frame have passed

  assign is_patched = is_roots_i && !is_first_q && !is_done_q;
  assign frame_valid_o = frame_valid_i && decision_valid_i && (!is_roots_i || is_done_q || patched_valid);
  assign frame_ready_o = frame_valid_o && frame_ready_i;
  assign decision_ready_o = frame_ready_o && frame_i.last;
  assign patched_ready = is_patched && frame_ready_o;

  always_comb begin
    frame_o = frame_i;
    for (int unsigned word = 0; word < BeatBytes / 2; word++) begin
      if (is_patched && patched.mask[word]) frame_o.data[16*word+:16] = patched.data[16*word+:16];
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      is_first_q <= 1'b1;
      is_done_q  <= 1'b0;
    end else if (frame_ready_o) begin
      is_first_q <= frame_i.last;
      is_done_q  <= !frame_i.last && (is_done_q || (is_patched && patched.is_end));
    end
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (!fetched_q[1] || ahead_has_space) else $error("an answer was read without space for it");
      assert (!item_i.valid || (write - read_q) < (AddressBits + 1)'(Depth)) else $error("an answer was overwritten");
      assert (!(frame_ready_o && is_patched && frame_i.last) || patched.is_end) else $error("a reply ended in an item");
    end
  end
`endif

endmodule
