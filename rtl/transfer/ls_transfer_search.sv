// SPDX-License-Identifier: Apache-2.0
//
// Finds accounts by their ids, and decides in which cell an account is created. An account is in one of the Ways cells
// of one of its two buckets; the full id decides. One id in each cycle: in the first cycle of a slot (phase_i = 1) the
// source, in the second one the destination. Only a source is created or removed.
//
// Timing for a source whose buckets are at the inputs in cycle k: the ids of its buckets are read in cycles k and k+1
// and compared in cycle k+2, in which id_i must have the id; the outputs are valid in cycle k+3, in which insert_i and
// remove_i must be given. The write is done in cycle k+5. A destination comes one cycle later.
//
// Forwarding: the sources of the next two slots, and the destination of the next slot, have read their buckets before
// the write. The destination of the slot after it reads in the cycle of the write, so its data are not defined if it
// reads the cell that is written. So the last two writes (`change_q`) are compared in cycle k+2, too, and in cycle k+3
// the result for a cell is that of the write which changed it, if there is one.
//
// After reset the unit marks all cells as free: one bucket in each cycle, in which no id may be searched (ready_o = 0).

module ls_transfer_search
  import ls_transfer_pkg::*;
#(
    parameter int unsigned BucketBits = 14,
    parameter Style = "block",
    localparam int unsigned CellBits = BucketBits + WayBits
) (
    input logic clk_i,
    input logic rst_ni,

    input logic phase_i,
    output logic ready_o,

    input logic [BucketBits-1:0] first_i,
    input logic [BucketBits-1:0] second_i,
    input id_t id_i,
    input logic insert_i,
    input logic remove_i,

    output logic is_found_o,
    output logic is_full_o,  // no cell is free for this account
    output logic [CellBits-1:0] cell_o,  // of the account, or the one in which it is created
    output logic [CellBits-1:0] found_cell_o  // of the account, if it is found
);

  localparam int unsigned Buckets = 1 << BucketBits;
  localparam int unsigned Parts = 4;  // of an id, for the two-level comparison
  localparam int unsigned PartBits = (IdBits + Parts - 1) / Parts;

  typedef logic [BucketBits-1:0] bucket_t;

  typedef struct packed {
    logic is_used;
    id_t  id;
  } entry_t;

  typedef struct packed {
    logic valid;
    bucket_t bucket;
    logic [WayBits-1:0] way;
    entry_t entry;
  } change_t;

  // ------------------------------------------------------------------------- clearing after reset
  logic clear_q;
  bucket_t clear_bucket_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      clear_q <= 1'b1;
      clear_bucket_q <= '0;
    end else if (clear_q) begin
      clear_bucket_q <= clear_bucket_q + 1'b1;
      if (&clear_bucket_q) clear_q <= 1'b0;
    end
  end
  assign ready_o = !clear_q;

  // ------------------------------------------------------------------------------ reading the ids
  change_t [1:0] change_q;  // 0: the newest
  change_t change_d;
  entry_t [1:0][Ways-1:0] read;  // by bucket (first, second) and way
  bucket_t [1:0] asked;
  bucket_t [1:0] bucket1_q, bucket2_q, bucket3_q;

  assign asked = {second_i, first_i};

  // The memories are far apart, so what they write comes from registers.
  logic [Ways-1:0] write_q;
  bucket_t write_bucket_q;
  entry_t write_entry_q;
  always_ff @(posedge clk_i) begin
    for (int unsigned w = 0; w < Ways; w++) begin
      write_q[w] <= rst_ni && (clear_q || (phase_i && change_q[0].valid && change_q[0].way == WayBits'(w)));
    end
    write_bucket_q <= clear_q ? clear_bucket_q : change_q[0].bucket;
    write_entry_q  <= clear_q ? '0 : change_q[0].entry;
  end

  for (genvar b = 0; b < 2; b++) begin : gen_bucket
    for (genvar w = 0; w < int'(Ways); w++) begin : gen_way
      entry_t unused_data;
`ifdef FORMAL
      entry_t [Buckets-1:0] content;
`endif

      ls_transfer_ram #(
          .Width($bits(entry_t)),
          .Depth(Buckets),
          .Style(Style)
      ) u_ids (
          .clk_i,
          .a_write_i(1'b0),
          .a_address_i(asked[b]),
          .a_data_i('0),
          .a_data_o(read[b][w]),
          .b_write_i(write_q[w]),
          .b_address_i(write_bucket_q),
          .b_data_i(write_entry_q),
          .b_data_o(unused_data)
`ifdef FORMAL,
          .content_o(content)
`endif
      );

      logic unused;
      assign unused = &{1'b0, unused_data};
    end
  end

  // ------------------------------------------------------------- comparison, corrected by changes
  logic [1:0][Ways-1:0] is_used_d, is_used_q;
  // Comparisons with what was read, and with what the last two writes wrote.
  logic [1:0][Ways-1:0][Parts-1:0] is_read_equal_q;
  logic [1:0][Parts-1:0] is_change_equal_q;
  // is_read: the cell is used, and none of the last two writes changed it. is_changed[b][w][c]: the cell is used, and
  // write c changed it last.
  logic [1:0][Ways-1:0] is_read_d, is_read_q;
  logic [1:0][Ways-1:0][1:0] is_changed_d, is_changed_q;
  id_t id3_q;

  // Returns one bit for each part of two ids that is equal.
  function automatic logic [Parts-1:0] compare(input id_t a, input id_t b);
    logic [Parts*PartBits-1:0] differs;
    differs = (Parts * PartBits)'(a ^ b);
    for (int unsigned i = 0; i < Parts; i++) compare[i] = differs[PartBits*i+:PartBits] == '0;
  endfunction

  always_comb begin
    for (int unsigned b = 0; b < 2; b++) begin
      for (int unsigned w = 0; w < Ways; w++) begin
        is_used_d[b][w] = read[b][w].is_used;
        is_read_d[b][w] = read[b][w].is_used;
        is_changed_d[b][w] = '0;
        for (int c = 1; c >= 0; c--) begin
          if (change_q[c].valid && change_q[c].bucket == bucket2_q[b] &&
              change_q[c].way == WayBits'(w)) begin
            is_used_d[b][w] = change_q[c].entry.is_used;
            is_read_d[b][w] = 1'b0;
            is_changed_d[b][w] = '0;
            is_changed_d[b][w][c] = change_q[c].entry.is_used;
          end
        end
      end
    end
  end

  always_ff @(posedge clk_i) begin
    bucket1_q <= asked;
    bucket2_q <= bucket1_q;
    bucket3_q <= bucket2_q;
    is_used_q <= is_used_d;
    is_read_q <= is_read_d;
    is_changed_q <= is_changed_d;
    for (int unsigned b = 0; b < 2; b++) begin
      for (int unsigned w = 0; w < Ways; w++) is_read_equal_q[b][w] <= compare(read[b][w].id, id_i);
    end
    for (int unsigned c = 0; c < 2; c++) is_change_equal_q[c] <= compare(change_q[c].entry.id, id_i);
    id3_q <= id_i;
  end

  // ------------------------------------------------------------------------------------- decision
  logic [1:0][Ways-1:0] is_match;
  logic found_bucket, other;
  logic [WayBits-1:0] found_way;
  logic [1:0][WayBits:0] used;  // number of used cells
  logic [1:0][WayBits-1:0] vacant;  // first free cell
  logic [1:0] is_full;

  always_comb begin
    found_bucket = 1'b0;
    found_way = '0;
    used = '0;
    vacant = '0;
    for (int unsigned b = 0; b < 2; b++) begin
      for (int unsigned i = 0; i < Ways; i++) begin
        is_match[b][i] = (is_read_q[b][i] && (&is_read_equal_q[b][i])) ||
                         (is_changed_q[b][i][0] && (&is_change_equal_q[0])) ||
                         (is_changed_q[b][i][1] && (&is_change_equal_q[1]));
        if (is_match[b][i]) begin
          found_bucket = 1'(b);
          found_way |= WayBits'(i);
        end
        used[b] += (WayBits + 1)'(is_used_q[b][i]);
        if (!is_used_q[b][Ways-1-i]) vacant[b] = WayBits'(Ways - 1 - i);
      end
      is_full[b] = &is_used_q[b];
    end
    other = used[0] >= (WayBits + 1)'(Crowded) && used[0] > used[1];
  end

  assign is_found_o = |is_match;
  assign is_full_o  = is_full[other];
  assign found_cell_o = {bucket3_q[found_bucket], found_way};
  assign cell_o = is_found_o ? found_cell_o : {bucket3_q[other], vacant[other]};

  always_comb begin
    change_d.valid = insert_i ? !is_found_o && !is_full_o : remove_i && is_found_o;
    {change_d.bucket, change_d.way} = cell_o;
    change_d.entry = '{is_used: insert_i, id: id3_q};
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      change_q[0].valid <= 1'b0;
      change_q[1].valid <= 1'b0;
    end else if (!phase_i) begin
      change_q <= {change_q[0], change_d};
    end
  end


`ifdef FORMAL_SEARCH
  // The proof compares the pipeline with `entries_q`, in which each source takes effect at once, in the cycle of its
  // decision. After the clearing, the initial state is free.
  localparam int unsigned Cells = 1 << CellBits;

  entry_t [Cells-1:0] entries_q, entries_d;
  logic [2:0] ready_cycles_q;  // cycles since the end of the clearing, at most 7
  logic is_decision, past_valid_q, past_phase_q, was_reset_q;
  // Buckets of each id: any function for which the two differ. The registers keep their free initial state.
  logic [(1<<IdBits)-1:0][BucketBits-1:0] first_of, second_of;

  initial past_valid_q = 1'b0;
  always_ff @(posedge clk_i) begin
    first_of <= first_of;
    second_of <= second_of;
    past_valid_q <= 1'b1;
    past_phase_q <= phase_i;
    if (!rst_ni || !ready_o) ready_cycles_q <= '0;
    else if (!(&ready_cycles_q)) ready_cycles_q <= ready_cycles_q + 1'b1;
    entries_q <= rst_ni ? entries_d : '0;
  end

  // Decision about a source. Its buckets were read after the clearing.
  assign is_decision = rst_ni && ready_cycles_q > 3'd4;

  always_comb begin
    entries_d = entries_q;
    if (is_decision && !phase_i && change_d.valid) entries_d[cell_o] = change_d.entry;
  end

  // Environment.
  always_comb begin
    if (past_valid_q) begin
      assume (rst_ni);
      assume (phase_i != past_phase_q);
    end else assume (!rst_ni && !phase_i);
    if (!is_decision) assume (!insert_i && !remove_i);
    assume (!(insert_i && remove_i));
    assume (bucket2_q[0] == first_of[id_i] && bucket2_q[1] == second_of[id_i]);
    for (int unsigned i = 0; i < (1 << IdBits); i++) assume (first_of[i] != second_of[i]);
  end

  logic is_stored;
  logic [Cells-1:0] holds;
  bucket_t chosen;
  int unsigned first_used, second_used;  // cells of both buckets of the id that are used

  assign chosen = cell_o[CellBits-1:WayBits];

  always_comb begin
    first_used = 0;
    second_used = 0;
    for (int unsigned w = 0; w < Ways; w++) begin
      if (entries_q[{first_of[id3_q], WayBits'(w)}].is_used) first_used++;
      if (entries_q[{second_of[id3_q], WayBits'(w)}].is_used) second_used++;
    end
    for (int unsigned i = 0; i < Cells; i++) begin
      holds[i] = entries_q[i].is_used && entries_q[i].id == id3_q;
    end
    is_stored = |holds;
  end

  // Both copies of the ids, with the write that is under way, are what the sources before have left.
  for (genvar b = 0; b < 2; b++) begin : gen_check_copy
    for (genvar w = 0; w < int'(Ways); w++) begin : gen_check_way
      for (genvar i = 0; i < int'(Buckets); i++) begin : gen_check_bucket
        always_comb begin
          if (rst_ni && past_valid_q) begin
            if (change_q[0].valid && change_q[0].bucket == bucket_t'(i) &&
                change_q[0].way == WayBits'(w))
              assert (entries_q[i*Ways+w] == change_q[0].entry);
            else if (write_q[w] && write_bucket_q == bucket_t'(i))
              assert (entries_q[i*Ways+w] == write_entry_q);
            else if (ready_o) begin
              assert (entries_q[i*Ways+w].is_used == gen_bucket[b].gen_way[w].content[i].is_used);
              if (entries_q[i*Ways+w].is_used)
                assert (entries_q[i*Ways+w].id == gen_bucket[b].gen_way[w].content[i].id);
            end else if (bucket_t'(i) < clear_bucket_q)
              assert (!gen_bucket[b].gen_way[w].content[i].is_used);
            if (!ready_o) assert (!entries_q[i*Ways+w].is_used);
          end
        end
      end
    end
  end

  always_comb begin
    if (rst_ni && past_valid_q) begin
      if (!is_decision) assert (!change_q[0].valid && !change_q[1].valid || ready_o);
      for (int unsigned i = 0; i < Cells; i++) begin
        if (entries_q[i].is_used) begin
          // An account is in one of its buckets, and in one cell only.
          assert (bucket_t'(i / Ways) == first_of[entries_q[i].id] ||
              bucket_t'(i / Ways) == second_of[entries_q[i].id]);
          for (int unsigned j = 0; j < i; j++) begin
            assert (!(entries_q[j].is_used && entries_q[j].id == entries_q[i].id));
          end
        end
      end
    end
    if (is_decision && (!phase_i || !change_q[0].valid)) begin
      // An account is found if and only if it is stored, in its cell.
      assert (is_found_o == is_stored);
      if (is_found_o) assert (holds[cell_o] && $onehot(is_match));
      // A cell for a new account is free and is one of its cells. Full means that the chosen bucket has no free cell.
      if (!is_found_o && !is_full_o) begin
        assert (!entries_q[cell_o].is_used);
      end
      // The second bucket is chosen if the first one is crowded and has more accounts, with all earlier slots counted.
      if (!is_found_o)
        assert (chosen == (first_used >= Crowded && first_used > second_used ? second_of[id3_q] : first_of[id3_q]));
      if (!is_found_o && is_full_o) begin
        for (int unsigned w = 0; w < Ways; w++) assert (entries_q[{chosen, WayBits'(w)}].is_used);
      end
    end
  end
`endif

endmodule
