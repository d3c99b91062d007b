// SPDX-License-Identifier: Apache-2.0
//
// The store of the service `transfer`: executes operations of clients and orders of the host on accounts with exact
// ids, in the order in which they were accepted. See README.md for the interface, its timing and the guarantees.
//
// Interfaces, ready/valid each: operation_* in, result_* out (one result for each operation, in order), record_* out
// (at most one record for each operation, in order), order_* in, response_* out (one for each order, in order).
// All ready and valid outputs, is_full_o and may_forward_o depend on registers only.
//
// Throughput: one operation or order every two cycles. Latency: HashCycles + 12 cycles from the cycle in which an
// operation is accepted to the first one in which result_valid_o is 1, if the results are taken at once.
//
// Nothing waits inside: a request is accepted only if its result has a place in the queue of results. A place in the
// queue of records is reserved when an operation is accepted that may need one; without a place the operation is
// answered CodeBusy and has no effect. record_left_i frees the place of a record that was taken, then or later.

module ls_transfer_store
  import ls_transfer_pkg::*;
#(
    parameter int unsigned BucketBits = 14,  // log2 of the number of buckets of Ways cells
    parameter Style = "block",  // of the memories: "block" or "ultra"
    parameter int unsigned RecordDepth = 16,  // records that wait; a power of two
    parameter int unsigned ResultDepth = 16,
    parameter int unsigned ResponseDepth = 16,
    parameter int unsigned HashCycles = 8  // latency of ls_index_hash; even
) (
    input logic clk_i,
    input logic rst_ni,

    input logic [HashKeyBits-1:0] hash_key_i,  // constant after reset

    input  logic       operation_valid_i,
    output logic       operation_ready_o,
    input  operation_t operation_i,

    output logic    result_valid_o,
    input  logic    result_ready_i,
    output result_t result_o,

    output logic    record_valid_o,
    input  logic    record_ready_i,
    output record_t record_o,
    // A record that was taken has left, in the same cycle or later: its place is free.
    input  logic    record_left_i,

    input  logic   order_valid_i,
    output logic   order_ready_o,
    input  order_t order_i,

    output logic      response_valid_o,
    input  logic      response_ready_i,
    output response_t response_o,

    // 1: an operation that is accepted in this cycle has no place for a record.
    output logic is_full_o,
    // 0: no operation that has been accepted will have the result `forward`.
    output logic may_forward_o
);

  localparam int unsigned CellBits = BucketBits + WayBits;
  // Slots from acceptance to the one in which the ids of a slot's accounts are compared, and to the execution.
  localparam int unsigned CompareAt = HashCycles / 2 + 1;
  localparam int unsigned ExecuteAt = CompareAt + 1;
  // Slots under way, of which each may be an order.
  localparam int unsigned Orders = ExecuteAt + 4;

  // A slot has two cycles: phase_q is 1 in the first one (source) and 0 in the second one (destination).
  // Two registers, so that each has fewer loads: the second one chooses between source and destination.
  logic phase_q, select_phase_q;
  always_ff @(posedge clk_i) begin
    phase_q <= rst_ni && !phase_q;
    select_phase_q <= rst_ni && !select_phase_q;
  end

  // ----------------------------------------------------------------------------------- acceptance
  logic [$clog2(RecordDepth):0] record_places_q;  // free places in each queue
  logic [$clog2(ResultDepth):0] result_places_q;
  logic [$clog2(ResponseDepth):0] response_places_q;
  logic search_ready;
  logic order_held_q, order_turn_q, order_linked_q;
  order_t order_q;
  logic take_operation, take_order, may_take_order, may_take_operation, order_ready_q, operation_ready_q;
  logic is_bad, needs_place, was_full_q;
  slot_t slot_d, checked;
  slot_t slot_q[ExecuteAt+1];

  assign order_ready_o = !order_held_q;
  // What the next slot takes is decided in the first cycle of the slot before it. An order has its turn after each slot
  // that was free for an operation, and an operation after each order that is not linked with the next one.
  assign may_take_order = search_ready && (order_held_q || order_valid_i) && response_places_q != '0 &&
      (order_turn_q || result_places_q == '0);
  assign may_take_operation = search_ready && result_places_q != '0 && !may_take_order && !order_linked_q;
  always_ff @(posedge clk_i) begin
    order_ready_q <= rst_ni && phase_q && may_take_order;
    operation_ready_q <= rst_ni && phase_q && may_take_operation;
  end
  assign take_order = order_ready_q;
  assign operation_ready_o = operation_ready_q;
  assign take_operation = operation_valid_i && operation_ready_q;

  always_comb begin
    slot_d = '0;
    slot_d.valid = take_order || take_operation;
    slot_d.is_order = take_order;
    slot_d.operation = operation_i;
    slot_d.kind = order_q.kind;
    slot_d.account = order_q.account;
    if (take_order) begin
      slot_d.operation = '0;
      slot_d.operation.user = order_q.user;
      slot_d.operation.source = order_q.id;
    end
  end

  // The first cycle of the slot checks the operation, and reserves the place of its record.
  localparam int unsigned ZeroParts = 4;
  localparam int unsigned ZeroBits = (AmountBits + ZeroParts - 1) / ZeroParts;
  // About the slot's operation; without meaning for an order.
  logic [ZeroParts-1:0] zero_parts_q;  // parts of its amount that are 0
  logic is_unknown_q;  // no command
  logic needs_amount_q;  // a bad command if its amount is 0
  logic may_need_place_q, always_needs_place_q;  // a place for a record: if it is not refused; in any case
  logic is_zero;
  logic [ZeroParts*ZeroBits-1:0] padded_amount;
  assign padded_amount = (ZeroParts * ZeroBits)'(operation_i.amount);
  assign is_zero = &zero_parts_q;
  assign is_bad = is_unknown_q || (needs_amount_q && is_zero);
  assign needs_place = slot_q[0].valid && (always_needs_place_q || (may_need_place_q && !is_bad));
  always_comb begin
    checked = slot_q[0];
    if (phase_q) begin
      if (is_bad && !slot_q[0].is_order) checked.operation.refused = CodeBadCommand;
      checked.is_busy = needs_place && was_full_q;
      checked.has_place = needs_place && !was_full_q;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      order_held_q <= 1'b0;
      order_turn_q <= 1'b0;
      order_linked_q <= 1'b0;
    end else begin
      if (order_valid_i && order_ready_o) order_held_q <= 1'b1;
      else if (take_order) order_held_q <= 1'b0;
      if (take_order) order_linked_q <= order_q.linked;
      if (take_order) order_turn_q <= order_q.linked;
      else if (operation_ready_o || (!phase_q && order_held_q)) order_turn_q <= 1'b1;
    end
    if (!order_held_q) order_q <= order_i;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      for (int unsigned i = 0; i <= ExecuteAt; i++) slot_q[i].valid <= 1'b0;
    end else if (!phase_q) begin
      slot_q[0].valid <= slot_d.valid;
      for (int unsigned i = 1; i <= ExecuteAt; i++) slot_q[i].valid <= slot_q[i-1].valid;
    end
    if (!phase_q) begin
      slot_q[0].is_order <= slot_d.is_order;
      slot_q[0].operation <= slot_d.operation;
      slot_q[0].kind <= slot_d.kind;
      slot_q[0].account <= slot_d.account;
      for (int unsigned i = 0; i < ZeroParts; i++) begin
        zero_parts_q[i] <= padded_amount[ZeroBits*i+:ZeroBits] == '0;
      end
      is_unknown_q <= operation_i.command < CommandCreate || operation_i.command > CommandUnfreeze;
      needs_amount_q <= operation_i.command == CommandTransfer ||
          (operation_i.command == CommandIssue && !operation_i.is_paper);
      may_need_place_q <= !take_order && operation_i.command != CommandRefer && operation_i.refused == CodeDone;
      always_needs_place_q <= !take_order && operation_i.command != CommandRefer && operation_i.keep_refusals;
      for (int unsigned i = 1; i <= ExecuteAt; i++) begin
        {slot_q[i].is_order, slot_q[i].is_busy, slot_q[i].has_place, slot_q[i].operation, slot_q[i].kind,
         slot_q[i].account} <= {slot_q[i-1].is_order, slot_q[i-1].is_busy, slot_q[i-1].has_place,
                                slot_q[i-1].operation, slot_q[i-1].kind, slot_q[i-1].account};
      end
      was_full_q <= is_full_o;
    end else begin
      slot_q[0].operation.refused <= checked.operation.refused;
      slot_q[0].is_busy <= checked.is_busy;
      slot_q[0].has_place <= checked.has_place;
    end
  end

  // --------------------------------------------------------------------------------------- search
  logic [63:0] hash;
  logic [BucketBits-1:0] first, second;
  slot_t compare;
  logic is_found, is_full, insert, remove;
  logic [CellBits-1:0] chosen_cell, found_cell;
  logic source_found_q, source_new_q, destination_found;
  logic [CellBits-1:0] source_q;
  id_t hashed_q, searched_q;
  logic unused_slot;

  // The id that is hashed in the next cycle, and the one that is compared.
  always_ff @(posedge clk_i) begin
    hashed_q <= select_phase_q ? slot_q[0].operation.destination : slot_d.operation.source;
    searched_q <= select_phase_q ? compare.operation.destination : slot_q[CompareAt-1].operation.source;
  end

  ls_index_hash u_hash (
      .clk_i,
      .key_i(hash_key_i),
      .words_i(128'(hashed_q)),
      .hash_o(hash)
  );
  // See transfer_buckets in xdp/transfer_store.h. If both halves choose one bucket, the second one is its neighbour.
  assign first = hash[63-:BucketBits];
  assign second = hash[63-BucketBits-:BucketBits] ^ BucketBits'(first == hash[63-BucketBits-:BucketBits]);

  assign compare = slot_q[CompareAt];
  // Most fields are used in other stages, and the low bits of the hash choose nothing.
  assign unused_slot = &{1'b0, compare, hash, slot_d, checked};

  // Used in the second cycle of the slot, for the source; the first one chooses it.
  logic insert_d, remove_d;
  always_comb begin
    insert_d = 1'b0;
    remove_d = 1'b0;
    if (compare.valid && compare.is_order) begin
      insert_d = compare.kind inside {OrderFill, OrderPut};
      remove_d = compare.kind == OrderRemove;
    end else if (compare.valid) begin
      insert_d = compare.operation.command == CommandCreate && !compare.is_busy &&
          compare.operation.refused == CodeDone &&
          !(compare.operation.is_paper && compare.operation.amount > PaperLimit);
    end
  end
  always_ff @(posedge clk_i) begin
    insert <= rst_ni && insert_d;
    remove <= rst_ni && remove_d;
  end

  ls_transfer_search #(
      .BucketBits(BucketBits),
      .Style(Style)
  ) u_search (
      .clk_i,
      .rst_ni,
      .phase_i(phase_q),
      .ready_o(search_ready),
      .first_i(first),
      .second_i(second),
      .id_i(searched_q),
      .insert_i(insert),
      .remove_i(remove),
      .is_found_o(is_found),
      .is_full_o(is_full),
      .cell_o(chosen_cell),
      .found_cell_o(found_cell)
  );

  // The destination is that of another account.
  logic has_payee_q;
  always_ff @(posedge clk_i) begin
    has_payee_q <= !slot_q[CompareAt].is_order && slot_q[CompareAt].operation.command == CommandTransfer &&
        slot_q[CompareAt].operation.source != slot_q[CompareAt].operation.destination;
    if (!phase_q) begin
      source_found_q <= is_found;
      source_new_q <= insert && !is_found && !is_full;
      source_q <= chosen_cell;
    end
  end
  assign destination_found = is_found && has_payee_q;  // in the first cycle of the slot that is executed

  // ------------------------------------------------------------------------------------ execution
  slot_t done;
  result_t result;
  record_t record;
  response_t response;
  version_t records_q;  // number of records since reset
  cell_t   cell_after;
  logic push, push_result, push_record, push_response, release_place;
  logic pop_result, pop_record, pop_response;
  logic is_claimed;
  // Orders from their acceptance to their response, each of which may claim an account.
  logic [$clog2(Orders+1)-1:0] orders_q;
  logic [$clog2(ResultDepth):0] result_count;
  logic [$clog2(RecordDepth):0] record_count;
  logic [$clog2(ResponseDepth):0] response_count;
  logic [2:0] unused_ready;
  logic unused_done, unused_queues;

`ifdef FORMAL
  slot_t [2:0] stages;
  result_t [ResultDepth-1:0] result_entries;
  record_t [RecordDepth-1:0] record_entries;
  response_t [ResponseDepth-1:0] response_entries;
`endif

  assign unused_done = &{1'b0, done};
  // The proof reads the rest.
  assign unused_queues = &{1'b0, unused_ready, pop_record, result_count, record_count, response_count};

  ls_transfer_execute #(
      .CellBits(CellBits),
      .Style(Style)
  ) u_execute (
      .clk_i,
      .rst_ni,
      .phase_i(phase_q),
      .slot_i(slot_q[ExecuteAt]),
      .source_found_i(source_found_q),
      .source_new_i(source_new_q),
      .source_i(source_q),
      .destination_found_i(destination_found),
      .destination_i(has_payee_q ? found_cell : source_q),
      .slot_o(done),
      .done_o(push),
      .result_o(result),
      .record_o(record),
      .cell_o(cell_after),
      .is_claimed_o(is_claimed)
`ifdef FORMAL,
      .stages_o(stages)
`endif
  );

  assign response = '{
          user: result.user,
          code: result.code,
          records: records_q,
          account: cell_after
      };
  assign push_result = push && !done.is_order;
  assign push_record = push_result && result.recorded;
  assign push_response = push && done.is_order;
  assign release_place = push_result && done.has_place && !result.recorded;

  // --------------------------------------------------------------------------------------- queues
  // Places are counted before a slot begins, so each queue has room for what comes.
  assign pop_result = result_valid_o && result_ready_i;
  assign pop_record = record_valid_o && record_ready_i;
  assign pop_response = response_valid_o && response_ready_i;

  ls_fifo #(
      .T(result_t),
      .Depth(ResultDepth),
      .HasRoom(1'b1),
      .WritesIdle(1'b1)
  ) u_results (
      .clk_i,
      .rst_ni,
`ifdef FORMAL
      .entries_o(result_entries),
`endif
      .valid_i(push_result),
      .ready_o(unused_ready[0]),
      .data_i (result),
      .valid_o(result_valid_o),
      .ready_i(result_ready_i),
      .data_o (result_o),
      .count_o(result_count)
  );

  ls_fifo #(
      .T(record_t),
      .Depth(RecordDepth),
      .HasRoom(1'b1),
      .WritesIdle(1'b1)
  ) u_records (
      .clk_i,
      .rst_ni,
`ifdef FORMAL
      .entries_o(record_entries),
`endif
      .valid_i(push_record),
      .ready_o(unused_ready[1]),
      .data_i (record),
      .valid_o(record_valid_o),
      .ready_i(record_ready_i),
      .data_o (record_o),
      .count_o(record_count)
  );

  ls_fifo #(
      .T(response_t),
      .Depth(ResponseDepth),
      .HasRoom(1'b1),
      .WritesIdle(1'b1)
  ) u_responses (
      .clk_i,
      .rst_ni,
`ifdef FORMAL
      .entries_o(response_entries),
`endif
      .valid_i(push_response),
      .ready_o(unused_ready[2]),
      .data_i (response),
      .valid_o(response_valid_o),
      .ready_i(response_ready_i),
      .data_o (response_o),
      .count_o(response_count)
  );

  // The response to the order after a record comes at least two cycles later.
  logic pushed_record_q;
  always_ff @(posedge clk_i) begin
    pushed_record_q <= rst_ni && push_record;
    if (!rst_ni) records_q <= '0;
    else if (pushed_record_q) records_q <= records_q + 1'b1;
    if (!rst_ni) orders_q <= '0;
    else orders_q <= orders_q + ($clog2(Orders + 1))'(take_order) - ($clog2(Orders + 1))'(push_response);
  end

  // A place in the queue of results or responses is free one cycle after its entry was taken, because what takes it may
  // depend on many things.
  logic popped_result_q, popped_response_q;
  always_ff @(posedge clk_i) begin
    popped_result_q   <= rst_ni && pop_result;
    popped_response_q <= rst_ni && pop_response;
  end

  assign is_full_o = record_places_q == '0;
  assign may_forward_o = is_claimed || orders_q != '0;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      record_places_q <= ($clog2(RecordDepth) + 1)'(RecordDepth);
      result_places_q <= ($clog2(ResultDepth) + 1)'(ResultDepth);
      response_places_q <= ($clog2(ResponseDepth) + 1)'(ResponseDepth);
    end else begin
      record_places_q <= record_places_q + ($clog2(RecordDepth) + 1)'(record_left_i) +
          ($clog2(RecordDepth) + 1)'(release_place) -
          ($clog2(RecordDepth) + 1)'(phase_q && checked.has_place);
      result_places_q <= result_places_q + ($clog2(ResultDepth) + 1)'(popped_result_q) -
          ($clog2(ResultDepth) + 1)'(take_operation);
      response_places_q <= response_places_q + ($clog2(ResponseDepth) + 1)'(popped_response_q) -
          ($clog2(ResponseDepth) + 1)'(take_order);
    end
  end

`ifdef FORMAL_STORE
  localparam int unsigned Stages = ExecuteAt + 4;
  localparam int unsigned Latency = 2 * Stages - 1;  // from acceptance to the queue of results

  // All slots from the oldest to the newest. The outcome waits for its queue in one cycle only.
  slot_t [Stages-1:0] all;
  logic past_valid_q, past_running_q, past_phase_q, past_full_q;
  user_t accepted_q, given_q;  // operations that were accepted, and whose results were taken
  user_t order_accepted_q, order_given_q;
  user_t want, order_want;
  int unsigned results, records, responses;
  logic [$clog2(RecordDepth):0] leaving_q;  // records that were taken and have not left

  always_comb begin
    for (int unsigned i = 0; i < 3; i++) all[i] = stages[2-i];
    for (int unsigned i = 0; i <= ExecuteAt; i++) all[3+i] = slot_q[ExecuteAt-i];
    all[3+ExecuteAt] = checked;
    if (!phase_q) all[0].valid = 1'b0;
  end

  initial past_valid_q = 1'b0;
  always_ff @(posedge clk_i) begin
    past_valid_q <= 1'b1;
    past_running_q <= rst_ni;
    past_phase_q <= rst_ni && phase_q;
    past_full_q <= record_places_q == '0;
    leaving_q <= rst_ni ? leaving_q + ($clog2(RecordDepth) + 1)'(pop_record) -
        ($clog2(RecordDepth) + 1)'(record_left_i) : '0;
    if (!rst_ni) begin
      {accepted_q, given_q, order_accepted_q, order_given_q} <= '0;
    end else begin
      accepted_q <= accepted_q + user_t'(take_operation);
      given_q <= given_q + user_t'(pop_result);
      order_accepted_q <= order_accepted_q + user_t'(order_valid_i && order_ready_o);
      order_given_q <= order_given_q + user_t'(pop_response);
    end
  end

  always_comb begin
    assume (rst_ni == past_valid_q);
    assume (!record_left_i || leaving_q != '0 || pop_record);
    // Every request is marked with its number.
    assume (operation_i.user == accepted_q);
    assume (order_i.user == order_accepted_q);
  end

  // Exactly once and in order: the queue and the slots hold the operations given_q, given_q + 1, ..., accepted_q - 1,
  // each in one place; likewise for the orders. Every queue has a place for each request under way.
  always_comb begin
    want = given_q;
    order_want = order_given_q;
    results = 32'(result_places_q) + 32'(result_count) + 32'(popped_result_q);
    records = 32'(record_places_q) + 32'(record_count) + 32'(leaving_q);
    responses = 32'(response_places_q) + 32'(response_count) + 32'(popped_response_q);
    if (rst_ni) begin
      for (int unsigned i = 0; i < ResultDepth; i++) begin
        if (i < 32'(result_count)) begin
          assert (result_entries[i].user == want);
          want += 1'b1;
        end
      end
      for (int unsigned i = 0; i < ResponseDepth; i++) begin
        if (i < 32'(response_count)) begin
          assert (response_entries[i].user == order_want);
          order_want += 1'b1;
        end
      end
      for (int unsigned i = 0; i < Stages; i++) begin
        assert (is_contract(all[i]));
        if (all[i].valid && !all[i].is_order) begin
          assert (all[i].operation.user == want);
          want += 1'b1;
          results += 1;
          records += 32'(all[i].has_place && !(i == 3 + ExecuteAt && phase_q));
        end
        if (all[i].valid && all[i].is_order) begin
          assert (all[i].operation.user == order_want);
          order_want += 1'b1;
          responses += 1;
        end
      end
      // The execution assumes this of a slot whose destination was found.
      if (phase_q && destination_found) begin
        assert (!slot_q[ExecuteAt].is_order && slot_q[ExecuteAt].operation.command == CommandTransfer);
        assert (slot_q[ExecuteAt].operation.source != slot_q[ExecuteAt].operation.destination);
      end
      if (order_held_q) begin
        assert (order_q.user == order_want);
        order_want += 1'b1;
      end
      assert (want == accepted_q && order_want == order_accepted_q);
      assert (results == ResultDepth && records == RecordDepth && responses == ResponseDepth);
      assert (!(take_order && take_operation));
      // Linked orders have no operation between them.
      assert (!(take_operation && order_linked_q));
      assert (!order_linked_q || order_turn_q);
      // A record has its place.
      if (push_record) assert (done.has_place);
      // A request that may change something has a place for its record, or is busy.
      if (phase_q && checked.valid && !checked.is_order && checked.operation.refused == CodeDone &&
          checked.operation.command != CommandRefer) assert (checked.has_place || checked.is_busy);
      if (slot_q[0].valid && !slot_q[0].is_order) assert (is_zero == (slot_q[0].operation.amount == '0));
      // The execution assumes that no slot is at its input directly after a reset.
      if (!past_running_q) assert (!slot_q[ExecuteAt].valid);
      // It is busy exactly if no place was free in the cycle in which it was accepted.
      if (phase_q && checked.valid && !checked.is_order && needs_place) begin
        assert (checked.is_busy == past_full_q && checked.has_place != past_full_q);
      end
      if (phase_q && checked.has_place) assert (record_places_q != '0);
      // Both registers of the phase, and what depends on it.
      assert (select_phase_q == phase_q && !(phase_q && (order_ready_q || operation_ready_q)));
      assert (push == (phase_q && done.valid));
      if (order_ready_q) assert (search_ready && order_held_q && response_places_q != '0);
      if (operation_ready_q) assert (search_ready && result_places_q != '0 && !order_linked_q);
      if (order_ready_q || operation_ready_q) assert (order_ready_q != operation_ready_q);
    end
  end

  // Liveness. Results are in their queue after a fixed time. A request waits a bounded time if its queue has a place.
  logic [Latency:1] taken_q;
  logic [Latency+2:0] cycles_q;
  logic [2:0] wait_q, order_wait_q;

  always_ff @(posedge clk_i) begin
    taken_q  <= rst_ni ? {taken_q[Latency-1:1], take_operation} : '0;
    cycles_q <= rst_ni ? {cycles_q[Latency+1:0], 1'b1} : '0;
    if (!rst_ni || !operation_valid_i || operation_ready_o || !search_ready ||
        result_places_q == '0 || order_linked_q) wait_q <= '0;
    else wait_q <= wait_q + 1'b1;
    if (!rst_ni || !order_held_q || take_order || !search_ready || response_places_q == '0)
      order_wait_q <= '0;
    else order_wait_q <= order_wait_q + 1'b1;
  end

  always_comb begin
    if (rst_ni && cycles_q[Latency+2]) assert (push_result == taken_q[Latency]);
    if (rst_ni) begin
      assert (wait_q <= 3'd4 && (wait_q != 3'd4 || !phase_q));
      assert (order_wait_q <= 3'd3 && (order_wait_q != 3'd3 || !phase_q));
    end
  end
`endif

endmodule
