// SPDX-License-Identifier: Apache-2.0
//
// Proof of ls_spv_lookup against a reference: a table of 8 lines and 2 blocks in which a write takes effect at once,
// and in which a request reads its whole set in one cycle and its block in one other cycle. The contents of the table
// are free at the beginning, and the host writes anything at any time.
// - Each request leaves exactly once, in order, after 19 cycles, unchanged but for its outcome.
// - A request is a hit exactly if an even epoch held when it began, and the lease two cycles earlier, the first line of
//   its set with the first word of its TXID has the whole TXID and a generation other than 0, the line's block has this
//   generation, and the epoch is the same at the end. It then has the whole block and the whole tip.
// - A request during which the epoch changes is no hit.
// - The same holds for a TXID that comes without a request, as those of the items of `roots` do: is_hit_o, is_open_o
//   and is_same_epoch_o tell the three conditions one by one, and a hit has the whole block.
// This holds for 1, 2 and 4 ways, both kinds of index, and any value of the hash of each request. The table is the only
// level (External is 0).
//
// Narrow: 7 bits of a TXID are free (0, 1, 2, 63, 64, 128, 255), and 2 or 3 bits of each other field; the rest is 0.
// Assumed: ways, number of sets, mask and kind of index do not change; the epoch rises by less than 15 in a cycle; no
// request comes in the first cycle after a reset.

module ls_spv_lookup_proof
  import ls_pkg::*;
  import ls_pipeline_pkg::*;
  import ls_spv_pkg::*;
#(
    parameter int unsigned WayBits = 2,  // log2 of the number of ways
    parameter bit PaperIndex = 1'b0
) (
    input logic clk_i,
    input logic rst_ni,

    input logic [1:0] lease_i,
    input logic [1:0] now_i,
    input logic [7:0] epoch_i,
    input logic [2:0] hash_i,
    input logic [2:0] tip_i,

    input logic line_write_i,
    input logic [2:0] line_index_i,
    input logic [1:0] line_generation_i,
    input logic line_block_i,
    input logic [6:0] line_txid_i,

    input logic block_write_i,
    input logic block_index_i,
    input logic [1:0] block_generation_i,
    input logic [3:0] block_i,

    input logic valid_i,
    input outcome_e outcome_i,
    input logic [2:0] request_i,
    input logic [6:0] txid_i
);

  localparam int unsigned Latency = 19;
  localparam int unsigned WaysUsed = 1 << WayBits;

  // Returns a TXID of which seven bits are free.
  function automatic logic [255:0] txid_of(input logic [6:0] bits);
    return {bits[6], 126'd0, bits[5], 63'd0, bits[4], bits[3], 60'd0, bits[2:0]};
  endfunction

  // A time: one bit in each of its halves, which the module compares one by one.
  function automatic logic [63:0] time_of(input logic [1:0] bits);
    return {31'd0, bits[1], 31'd0, bits[0]};
  endfunction

  control_t control;
  block_t block, block_out;
  logic is_roots;
  request_t request, request_out;
  logic valid_out, is_hit, is_open, is_same_epoch;
  logic [255:0] tip_hash;
  logic [31:0] tip_height;
  logic [15:0] tip_sum;

  always_comb begin
    control = '0;
    control.lease_until_ns = time_of(lease_i);
    control.epoch = 64'(epoch_i);
    control.key = {128'd0, hash_i, 61'd0};
    control.set_bits = 5'(3 - WayBits);
    control.ways = 3'(WaysUsed);
    control.block_mask = 32'd1;
    control.paper_index = PaperIndex;
    control.tip_hash = 256'(tip_i[0]);
    control.tip_height = 32'(tip_i[1]);
    control.tip_sum = 16'(tip_i[2]);
    block = '0;
    block.generation = 32'(block_generation_i);
    block.height = 32'(block_i[0]);
    block.root = 256'(block_i[1]);
    block.root_sum = 16'(block_i[2]);
    block.hash = 256'(block_i[3]);
    request = '0;
    request.outcome = outcome_i;
    request.is_native = request_i[0];
    request.headers.is_v6 = request_i[1];
    request.headers.ttl = 8'(request_i[2]);
  end

  ls_spv_lookup #(
      .LineBits (3),
      .BlockBits(1)
  ) u_dut (
      .clk_i,
      .rst_ni,
      .control_i(control),
      .now_ns_i(time_of(now_i)),
      .line_write_i,
      .line_index_i,
      .line_generation_i(32'(line_generation_i)),
      .line_block_i,
      .line_txid_i(txid_of(line_txid_i)),
      .block_write_i,
      .block_index_i,
      .block_i(block),
      .valid_i,
      .looks_up_i(1'b1),
      .request_i(request),
      .txid_i(txid_of(txid_i)),
      .valid_o(valid_out),
      .request_o(request_out),
      .is_roots_o(is_roots),
      .block_o(block_out),
      .is_hit_o(is_hit),
      .is_open_o(is_open),
      .is_same_epoch_o(is_same_epoch),
      .tip_hash_o(tip_hash),
      .tip_height_o(tip_height),
      .tip_sum_o(tip_sum),
      .line_clear_i(1'b0),
      .match_o(),
      .match_first_o(),
      .match_txid_o(),
      .match_i('0)
  );

  // ---- table of the reference ----

  typedef struct packed {
    logic [1:0] generation;
    logic slot;
    logic [6:0] txid;
  } line_t;

  typedef struct packed {
    logic [1:0] generation;
    logic [3:0] content;
  } small_block_t;

  logic is_first_q = 1'b1;
  logic was_reset_q;
  line_t [7:0] lines_q;
  small_block_t [1:0] blocks_q;
  logic [7:0] epoch_q;

  always_ff @(posedge clk_i) begin
    is_first_q <= 1'b0;
    was_reset_q <= !rst_ni;
    epoch_q <= epoch_i;
    if (line_write_i) lines_q[line_index_i] <= {line_generation_i, line_block_i, line_txid_i};
    if (block_write_i) blocks_q[block_index_i] <= {block_generation_i, block_i};
  end

  // ---- requests on their way ----

  typedef struct packed {
    logic valid;
    logic is_open;
    logic has_new_epoch;  // the epoch has changed since the request began
    logic [7:0] epoch;
    outcome_e outcome;
    logic [2:0] request;
    logic [6:0] txid;
    logic [2:0] hash;
    logic [2:0] first;  // first line of the set
    logic is_found;
    logic [1:0] generation;
    logic slot;
    small_block_t block;
    logic is_hit;
    logic is_same_epoch;
    outcome_e expected;
    logic [2:0] tip;
  } flight_t;

  flight_t [Latency:1] flight_q;  // by age in cycles
  flight_t now;
  logic [1:0] was_leased_q, leased;  // one cycle ago, two cycles ago; as the module has it
  assign leased = {
    u_dut.is_leased_q, u_dut.is_high_below_q || (u_dut.is_high_equal_q && u_dut.is_low_below_q)
  };

  always_ff @(posedge clk_i) was_leased_q <= {was_leased_q[0], now_i < lease_i};

  always_comb begin
    now = '0;
    now.valid = valid_i;
    now.is_open = !epoch_i[0] && was_leased_q[1];
    now.epoch = epoch_i;
    now.outcome = outcome_i;
    now.request = request_i;
    now.txid = txid_i;
  end

  // Returns the request with the result of the search in its set.
  function automatic flight_t searched(input flight_t flight, input line_t [7:0] lines);
    logic [2:0] at;
    logic is_decided;
    searched = flight;
    searched.is_found = 1'b0;
    is_decided = 1'b0;
    at = flight.first;
    for (int unsigned way = 0; way < WaysUsed; way++) begin
      if (!is_decided && lines[at].txid[3:0] == flight.txid[3:0]) begin
        is_decided = 1'b1;
        searched.is_found = lines[at].txid == flight.txid && lines[at].generation != '0;
        searched.generation = lines[at].generation;
        searched.slot = lines[at].slot;
      end
      at = at + 3'd1;
    end
  endfunction

  logic [2:0] hash_q;  // the module takes the key one cycle before the TXID

  always_ff @(posedge clk_i) begin
    for (int unsigned age = 2; age <= Latency; age++) begin
      flight_q[age] <= flight_q[age-1];
      flight_q[age].has_new_epoch <= flight_q[age-1].has_new_epoch || epoch_i != epoch_q;
    end
    flight_q[1] <= now;
    // Number of the set, times the number of ways.
    hash_q <= hash_i;
    flight_q[2].hash <= hash_q ^ flight_q[1].txid[2:0];
    flight_q[10].first <= (PaperIndex ? flight_q[9].txid[2:0] : flight_q[9].hash >> WayBits) << WayBits;
    {flight_q[12].is_found, flight_q[12].generation, flight_q[12].slot} <= {
      searched(flight_q[11], lines_q).is_found,
      searched(flight_q[11], lines_q).generation,
      searched(flight_q[11], lines_q).slot
    };
    flight_q[17].block <= blocks_q[flight_q[16].slot];
    flight_q[19].tip <= tip_i;
    flight_q[19].is_hit <= flight_q[18].is_found && flight_q[18].block.generation == flight_q[18].generation;
    flight_q[19].is_same_epoch <= flight_q[18].epoch == epoch_i;
    if (flight_q[18].outcome != OutcomeHit) flight_q[19].expected <= flight_q[18].outcome;
    else if (!flight_q[18].is_open) flight_q[19].expected <= OutcomeNotLeased;
    else if (!flight_q[18].is_found || flight_q[18].block.generation != flight_q[18].generation) begin
      flight_q[19].expected <= OutcomeMiss;
    end else if (flight_q[18].epoch != epoch_i) flight_q[19].expected <= OutcomeNotLeased;
    else flight_q[19].expected <= OutcomeHit;
    if (!rst_ni) for (int unsigned age = 1; age <= Latency; age++) flight_q[age].valid <= 1'b0;
  end

  line_t [7:0] held;  // the module's table
  always_comb begin
    for (int unsigned i = 0; i < 2; i++) begin
      held[4*i] = small_line(u_dut.gen_way[0].u_lines.memory[i]);
      held[4*i+1] = small_line(u_dut.gen_way[1].u_lines.memory[i]);
      held[4*i+2] = small_line(u_dut.gen_way[2].u_lines.memory[i]);
      held[4*i+3] = small_line(u_dut.gen_way[3].u_lines.memory[i]);
    end
  end

  // Returns the free bits of a line: generation, slot, TXID.
  function automatic line_t small_line(input logic [288:0] line);
    return {line[258:257], line[256], line[255], line[128], line[64:63], line[2:0]};
  endfunction

  small_block_t [1:0] held_blocks;
  block_t [1:0] module_blocks;
  always_comb begin
    for (int unsigned i = 0; i < 2; i++) begin
      module_blocks[i] = u_dut.u_blocks.memory[i];
      held_blocks[i].generation = module_blocks[i].generation[1:0];
      held_blocks[i].content = {
        module_blocks[i].hash[0], module_blocks[i].root_sum[0], module_blocks[i].root[0], module_blocks[i].height[0]
      };
    end
  end

  always_comb begin
    assume (!is_first_q || !rst_ni);
    if (is_first_q) begin
      assume (lines_q == held && blocks_q == held_blocks && was_leased_q == leased && hash_q == u_dut.u_hash.key_q);
    end else begin
      assume (8'(epoch_i - epoch_q) < 8'd15);
      if (was_reset_q) assume (!valid_i);
    end
    assume (outcome_i <= OutcomeRoots);
  end

  // Cycles since the start, at most until all places of flight_q have what came after it.
  logic [4:0] filled_q = '0;
  always_ff @(posedge clk_i) if (filled_q != 5'(Latency)) filled_q <= filled_q + 1'b1;

  flight_t done;
  assign done = flight_q[Latency];

  always_comb begin
    if (!is_first_q) begin
      // Each write reaches its line or block, and no other.
      assert (lines_q == held && blocks_q == held_blocks);
      assert (was_leased_q == leased);
      assert (hash_q == u_dut.u_hash.key_q);
      assert (valid_out == done.valid);
      // For the induction: after a reset, only requests that came after it are on their way.
      for (int unsigned age = 1; age <= Latency; age++) begin
        if (u_dut.flush_q != 0 && age + 32'(u_dut.flush_q) >= Latency) assert (!flight_q[age].valid);
      end
      if (filled_q == 5'(Latency)) begin
        assert (is_open == done.is_open && is_hit == done.is_hit && is_same_epoch == done.is_same_epoch);
        if (is_same_epoch) assert (!done.has_new_epoch);
        if (is_hit) begin
          assert (block_out.height[0] == done.block.content[0] && block_out.root[0] == done.block.content[1]);
          assert (block_out.root_sum[0] == done.block.content[2] && block_out.hash[0] == done.block.content[3]);
        end
      end
      if (valid_out) begin
        assert (request_out.is_native == done.request[0] && request_out.headers.is_v6 == done.request[1]);
        assert (request_out.headers.ttl[0] == done.request[2] && request_out.outcome == done.expected);
        assert (is_roots == (done.expected == OutcomeRoots));
        if (request_out.outcome == OutcomeHit) begin
          assert (!done.has_new_epoch);
          assert (block_out.generation[1:0] == done.block.generation && block_out.height[0] == done.block.content[0]);
          assert (block_out.root[0] == done.block.content[1] && block_out.root_sum[0] == done.block.content[2]);
          assert (block_out.hash[0] == done.block.content[3]);
          assert ({tip_sum[0], tip_height[0], tip_hash[0]} == done.tip);
        end
      end
    end
  end

endmodule
