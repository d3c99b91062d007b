// SPDX-License-Identifier: Apache-2.0
//
// Table of `spv` and the look-up in it: the RTL twin of xdp/spv_store.h. A keyed hash or, as in the paper, the low
// bits of the TXID choose a set; the first line of the set with the TXID's first word is compared as a whole; the
// line's block must have the line's generation; lease and epoch must hold.
//
// Interface: every request passes in order and in the same number of cycles, without back-pressure, also one that needs
// no look-up. Writes of lines and blocks take effect as a whole, one of each in each cycle, while look-ups go on. A
// request whose epoch changes during its look-up is forwarded to the host. The TXID of every cycle is looked up, also
// without a request: is_hit_o, block_o, is_open_o and is_same_epoch_o have the result. An item of native `roots` uses
// them; a request with OutcomeRoots passes unchanged. With External, this table is the first level: match_o gives out
// each request after the comparison, with its TXID and the number of the first line of its set, and match_i brings it
// back, at any later time and in order; line_clear_i writes all four lines that are read together.
// Latency: 19 cycles; with External, 16 to match_o and 3 from match_i. Throughput: one request in each cycle.

module ls_spv_lookup
  import ls_pipeline_pkg::*;
  import ls_spv_pkg::*;
#(
    parameter int unsigned LineBits  = 10,  // log2 of the number of lines, at least 3
    parameter int unsigned BlockBits = 4,   // log2 of the number of block slots
    parameter LineStyle = "block",
    parameter BlockStyle = "block",
    parameter bit External = 1'b0
) (
    input logic clk_i,
    input logic rst_ni,

    input control_t control_i,
    input logic [63:0] now_ns_i,

    input logic line_write_i,
    input logic [LineBits-1:0] line_index_i,
    input logic [31:0] line_generation_i,
    input logic [BlockBits-1:0] line_block_i,
    input logic [255:0] line_txid_i,

    input logic block_write_i,
    input logic [BlockBits-1:0] block_index_i,
    input block_t block_i,

    input logic valid_i,
    input logic looks_up_i,  // 1: txid_i is looked up, with or without a request; has an effect only with SkipsIdle
    input request_t request_i,
    input logic [255:0] txid_i,

    output logic valid_o,
    output request_t request_o,
    output logic is_roots_o,  // the outcome of request_o is OutcomeRoots
    output block_t block_o,
    output logic is_hit_o,  // the TXID has a line of a valid block
    output logic is_open_o,  // the epoch at the beginning, and the lease two cycles before, allowed an answer
    output logic is_same_epoch_o,  // the epoch has not changed since then
    output logic [255:0] tip_hash_o,
    output logic [31:0] tip_height_o,
    output logic [15:0] tip_sum_o,

    input logic line_clear_i,
    output match_t match_o,
    output logic [31:0] match_first_o,
    output logic [255:0] match_txid_o,
    input match_t match_i
);

  localparam int unsigned HashCycles = 8;
  localparam int unsigned RamCycles = 2;
  localparam int unsigned CellBits = LineBits - 2;

  typedef struct packed {
    logic [31:0] generation;
    logic [BlockBits-1:0] block;
    logic [255:0] txid;
  } line_t;

  typedef struct packed {
    logic valid;
    logic is_used;  // a TXID is looked up; has an effect only with SkipsIdle
    logic is_open;  // lease and epoch allowed an answer at the beginning
    logic [7:0] epoch;  // low bits: an epoch cannot return to them during one look-up
    request_t request;
  } passage_t;

  // ---- beginning: lease, epoch, hash ----

  passage_t begun_d, begun_q, hashed, read, compared_q, selected_q, fetched;
  logic [255:0] txid_q, hashed_txid, read_txid;
  logic [63:0] hash;
  // now_ns_i < control_i.lease_until_ns, by halves, two cycles late
  logic is_high_below_q, is_high_equal_q, is_low_below_q, is_leased_q;

  always_ff @(posedge clk_i) begin
    is_high_below_q <= now_ns_i[63:32] < control_i.lease_until_ns[63:32];
    is_high_equal_q <= now_ns_i[63:32] == control_i.lease_until_ns[63:32];
    is_low_below_q <= now_ns_i[31:0] < control_i.lease_until_ns[31:0];
    is_leased_q <= is_high_below_q || (is_high_equal_q && is_low_below_q);
  end

  always_comb begin
    begun_d.valid = valid_i;
    begun_d.is_used = looks_up_i;
    begun_d.is_open = !control_i.epoch[0] && is_leased_q;
    begun_d.epoch = control_i.epoch[7:0];
    begun_d.request = request_i;
  end

  always_ff @(posedge clk_i) begin
    begun_q <= begun_d;
    if (!SkipsIdle || looks_up_i) txid_q <= txid_i;
  end

  ls_index_hash u_hash (
      .clk_i,
      .key_i  (control_i.key),
      .words_i(txid_q[127:0]),
      .hash_o (hash)
  );

  ls_delay #(
      .T(passage_t),
      .Cycles(HashCycles)
  ) u_hash_delay (
      .clk_i,
      .valid_i(1'b1),
      .data_i(begun_q),
      .data_o(hashed)
  );

  ls_delay #(
      .T(logic [255:0]),
      .Cycles(HashCycles),
      .SkipsIdle(SkipsIdle)
  ) u_txid_delay (
      .clk_i,
      .valid_i(begun_q.is_used),
      .data_i(txid_q),
      .data_o(hashed_txid)
  );

  // ---- set and lines ----

  logic [31:0] set, set_q, first_line, first_line_q, set_mask_q;
  logic [5:0] set_shift_q;
  passage_t chosen_q, addressed_q;
  logic [255:0] chosen_txid_q, addressed_txid_q;

  // From control_i, which seldom changes.
  always_ff @(posedge clk_i) begin
    set_mask_q  <= (32'd1 << control_i.set_bits) - 32'd1;
    set_shift_q <= 6'd32 - 6'(control_i.set_bits);
  end

  assign set = control_i.paper_index ? hashed_txid[31:0] & set_mask_q : hash[63:32] >> set_shift_q;

  always_comb begin
    case (1'b1)
      control_i.ways[2]: first_line = {set_q[29:0], 2'd0};
      control_i.ways[1]: first_line = {set_q[30:0], 1'b0};
      default: first_line = set_q;
    endcase
  end

  always_ff @(posedge clk_i) begin
    set_q <= set;
    first_line_q <= first_line;
    chosen_q <= hashed;
    addressed_q <= chosen_q;
    if (!SkipsIdle || hashed.is_used) chosen_txid_q <= hashed_txid;
    if (!SkipsIdle || chosen_q.is_used) addressed_txid_q <= chosen_txid_q;
  end

  line_t lines[Ways];
  line_t written_line;
  logic [1:0] way_at;  // position of the first line of the set among the four that are read together

  assign written_line.generation = line_generation_i;
  assign written_line.block = line_block_i;
  assign written_line.txid = line_txid_i;

  for (genvar way = 0; way < Ways; way++) begin : gen_way
    ls_ram #(
        .Width($bits(line_t)),
        .Depth(1 << CellBits),
        .Style(LineStyle),
        .SkipsIdle(SkipsIdle)
    ) u_lines (
        .clk_i,
        .write_i((line_write_i && line_index_i[1:0] == 2'(way)) || line_clear_i),
        .write_address_i(line_index_i[LineBits-1:2]),
        .write_data_i(written_line),
        .read_i(addressed_q.is_used),
        .read_address_i(first_line_q[LineBits-1:2]),
        .read_data_o(lines[way])
    );
  end

  ls_delay #(
      .T(logic [1:0]),
      .Cycles(RamCycles)
  ) u_way_delay (
      .clk_i,
      .valid_i(1'b1),
      .data_i(first_line_q[1:0]),
      .data_o(way_at)
  );

  ls_delay #(
      .T(passage_t),
      .Cycles(RamCycles)
  ) u_line_delay (
      .clk_i,
      .valid_i(1'b1),
      .data_i(addressed_q),
      .data_o(read)
  );

  ls_delay #(
      .T(logic [255:0]),
      .Cycles(RamCycles),
      .SkipsIdle(SkipsIdle)
  ) u_line_txid_delay (
      .clk_i,
      .valid_i(addressed_q.is_used),
      .data_i(addressed_txid_q),
      .data_o(read_txid)
  );

  // ---- comparison: words of the TXID, then the whole ----

  localparam int unsigned PartBits = 16;
  localparam int unsigned Parts = 256 / PartBits;
  localparam int unsigned FirstWordParts = 64 / PartBits;

  passage_t matching_q;
  logic [Ways-1:0] in_set, in_set_q, is_first_word_q, is_whole_q;
  logic [Ways-1:0][Parts-1:0] is_part_q;
  logic [Ways-1:0][31:0] read_generations_q, generations_q;
  logic [Ways-1:0][BlockBits-1:0] read_blocks_q, blocks_q;

  always_comb begin
    case (1'b1)
      control_i.ways[2]: in_set = 4'b1111;
      control_i.ways[1]: in_set = way_at[1] ? 4'b1100 : 4'b0011;
      default: in_set = 4'b0001 << way_at;
    endcase
  end

  always_ff @(posedge clk_i) begin
    matching_q <= read;
    compared_q <= matching_q;
    if (!SkipsIdle || read.is_used) begin
      in_set_q <= in_set;
      for (int unsigned i = 0; i < Ways; i++) begin
        for (int unsigned part = 0; part < Parts; part++) begin
          is_part_q[i][part] <= lines[i].txid[PartBits*part+:PartBits] == read_txid[PartBits*part+:PartBits];
        end
        read_generations_q[i] <= lines[i].generation;
        read_blocks_q[i] <= lines[i].block;
      end
    end
    if (!SkipsIdle || matching_q.is_used) begin
      for (int unsigned i = 0; i < Ways; i++) begin
        is_first_word_q[i] <= in_set_q[i] && &is_part_q[i][FirstWordParts-1:0];
        is_whole_q[i] <= &is_part_q[i];
        generations_q[i] <= read_generations_q[i];
        blocks_q[i] <= read_blocks_q[i];
      end
    end
  end

  // The first line with the TXID's first word decides, as in spv_find.
  logic is_found_d, is_found_q, is_found;
  logic [31:0] generation_d, generation_q, generation;
  logic [BlockBits-1:0] slot_d, slot_q;

  always_comb begin
    is_found_d = 1'b0;
    generation_d = '0;
    slot_d = '0;
    for (int i = Ways - 1; i >= 0; i--) begin
      if (is_first_word_q[i]) begin
        is_found_d = is_whole_q[i] && generations_q[i] != '0;
        generation_d = generations_q[i];
        slot_d = blocks_q[i];
      end
    end
    slot_d = slot_d & control_i.block_mask[BlockBits-1:0];
  end

  always_ff @(posedge clk_i) begin
    selected_q <= compared_q;
    is_found_q <= is_found_d;
    generation_q <= generation_d;
    slot_q <= slot_d;
  end

  // ---- way through the second level ----

  // The requests in flight are not reset one by one: after a reset, nothing is valid until all stages hold what came
  // after it.
  localparam int unsigned Cycles = 2 + HashCycles + 1 + RamCycles + 3 + RamCycles + 1;
  localparam int unsigned CyclesAfterMatch = RamCycles + 1;
  logic [$clog2(Cycles+1)-1:0] flush_q;
  match_t own_match, match;

  always_comb begin
    own_match.valid = selected_q.valid;
    own_match.is_open = selected_q.is_open;
    own_match.epoch = selected_q.epoch;
    own_match.request = selected_q.request;
    own_match.is_found = is_found_q;
    own_match.generation = generation_q;
    own_match.slot = 32'(slot_q);
  end

  if (External) begin : gen_second_level
    always_comb begin
      match_o = own_match;
      match_o.valid = selected_q.valid && flush_q <= ($clog2(Cycles + 1))'(CyclesAfterMatch);
    end

    ls_delay #(
        .T(logic [31:0]),
        .Cycles(RamCycles + 3)
    ) u_first_delay (
        .clk_i,
        .valid_i(1'b1),
        .data_i(first_line_q),
        .data_o(match_first_o)
    );

    ls_delay #(
        .T(logic [255:0]),
        .Cycles(3),
        .SkipsIdle(SkipsIdle)
    ) u_match_txid_delay (
        .clk_i,
        .valid_i(read.is_used),
        .data_i(read_txid),
        .data_o(match_txid_o)
    );

    assign match = match_i;
  end else begin : gen_one_level
    assign match_o = '0;
    assign match_first_o = '0;
    assign match_txid_o = '0;
    assign match = own_match;
  end

  // ---- block ----

  passage_t matched;
  assign matched = '{
          valid: match.valid,
          is_used: External ? match.valid : selected_q.is_used,
          is_open: match.is_open,
          epoch: match.epoch,
          request: match.request
      };

  block_t block;

  ls_ram #(
      .Width($bits(block_t)),
      .Depth(1 << BlockBits),
      .Style(BlockStyle),
      .SkipsIdle(SkipsIdle)
  ) u_blocks (
      .clk_i,
      .write_i(block_write_i),
      .write_address_i(block_index_i),
      .write_data_i(block_i),
      .read_i(matched.is_used),
      .read_address_i(match.slot[BlockBits-1:0]),
      .read_data_o(block)
  );

  ls_delay #(
      .T(logic [32:0]),
      .Cycles(RamCycles)
  ) u_found_delay (
      .clk_i,
      .valid_i(1'b1),
      .data_i({match.is_found, match.generation}),
      .data_o({is_found, generation})
  );

  ls_delay #(
      .T(passage_t),
      .Cycles(RamCycles)
  ) u_block_delay (
      .clk_i,
      .valid_i(1'b1),
      .data_i(matched),
      .data_o(fetched)
  );

  // ---- end: generation and epoch ----

  logic valid_d;
  request_t request_d;
  assign valid_d = fetched.valid;

  always_comb begin
    request_d = fetched.request;
    if (fetched.request.outcome == OutcomeHit) begin
      if (!fetched.is_open) request_d.outcome = OutcomeNotLeased;
      else if (!is_found || block.generation != generation) request_d.outcome = OutcomeMiss;
      else if (control_i.epoch[7:0] != fetched.epoch) request_d.outcome = OutcomeNotLeased;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      valid_o <= 1'b0;
      flush_q <= ($clog2(Cycles + 1))'(Cycles);
    end else begin
      valid_o <= valid_d && flush_q == '0;
      if (flush_q != '0) flush_q <= flush_q - 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!SkipsIdle || fetched.is_used) begin
      request_o <= request_d;
      is_roots_o <= fetched.request.outcome == OutcomeRoots;
      block_o <= block;
      is_hit_o <= is_found && block.generation == generation;
      is_open_o <= fetched.is_open;
      is_same_epoch_o <= control_i.epoch[7:0] == fetched.epoch;
      tip_hash_o <= control_i.tip_hash;
      tip_height_o <= control_i.tip_height;
      tip_sum_o <= control_i.tip_sum;
    end
  end

endmodule
