// SPDX-License-Identifier: Apache-2.0
//
// Executes operations and orders on the cells of accounts that have been found, one each slot of two cycles, in order:
// the rules of xdp/transfer_rules.h and xdp/transfer_execute.h. A refused operation changes no balance. If it has a number
// and its refusal is recorded, it changes the last number and the version of the source, and the credit.
//
// Timing, in cycles after the second cycle of the slot at the input (phase_i = 0, cycle c):
//   c-1    the destination is at the input, and the addresses of both cells are put into registers
//   c      both cells are read (port A: source, port B: destination)
//   c+2    what is read is corrected by the two slots before, and put into registers
//   c+3    sums, differences and comparisons; what they say about the outcome
//   c+4    the code is chosen, and with it the new cells
//   c+5    both cells are written (phase_i = 1), and the outcome is at the outputs for two cycles
// Reads are in cycles with phase_i = 0 and writes in cycles with phase_i = 1, so two ports are enough.
//
// Forwarding: a slot takes each of its cells from the slot before (chosen in c+4 of that slot), else from the slot two
// before (its registers of c+5), else from the memory, which then has all earlier writes.

module ls_transfer_execute
  import ls_transfer_pkg::*;
  import ls_transfer_decode_pkg::*;
#(
    parameter int unsigned CellBits = 16,
    parameter Style = "block"
) (
    input logic clk_i,
    input logic rst_ni,

    input logic phase_i,

    // The slot, stable for two cycles. source_i: cell of the account, or in which it is created.
    input slot_t slot_i,
    input logic source_found_i,
    input logic source_new_i,
    input logic [CellBits-1:0] source_i,
    // Valid in the first cycle of the slot only (phase_i = 1).
    input logic destination_found_i,  // 0 for all commands but TRANSFER
    // Operations on one account have it as source and destination, because ISSUE adds on the destination's side. If the
    // destination of a TRANSFER was not found, any cell.
    input logic [CellBits-1:0] destination_i,

    // The outcome of the slot, stable for two cycles.
    output slot_t   slot_o,
    output logic    done_o,     // slot_o is valid; in the first one of the cycles only
    output result_t result_o,
    output record_t record_o,
    output cell_t   cell_o,     // source cell after an order
    output logic    is_claimed_o  // the host has claimed an account; one cycle after the new cells
`ifdef FORMAL,
    output slot_t [2:0] stages_o  // newest first
`endif
);

  typedef logic [CellBits-1:0] index_t;

  // The cells of a slot.
  typedef struct packed {
    index_t source;
    index_t destination;
  } cells_t;

  // --------------------------------------------------------------------------- reading (c to c+2)
  // Addresses and write enables of the memory's ports. They are registers, because the RAM blocks are far apart. The
  // ports write in the first cycle of a slot, and read in the second one.
  index_t source_port_q, destination_port_q;
  logic source_port_write_q, destination_port_write_q;
  logic destination_found_q;
  work_t work_d, read_q, operand_q;
  cells_t cells_d, read_cells_q, operand_cells_q;
  cell_t source_read, destination_read;
  // What the slot before leaves in its cells (c+4): if the sums refuse its operation (`fail`), and if they do not (`pass`).
  cell_t source_fail, source_pass, destination_fail, destination_pass;
  logic is_failing;
  logic source_write, destination_write;
  index_t source_write_index_q, destination_write_index_q;
  cell_t source_write_q, destination_write_q;
  logic source_write_enable_q, destination_write_enable_q;

`ifdef FORMAL
  cell_t [(1<<CellBits)-1:0] content;  // of the memory
`endif

  // Used in the second cycle of the slot: destination_port_q is then the address of its destination.
  assign work_d = '{
          slot: slot_i,
          found: source_found_i,
          is_new: source_new_i,
          destination_found: destination_found_q,
          is_same_account: slot_i.operation.source == slot_i.operation.destination
      };
  assign cells_d = '{source: source_i, destination: destination_port_q};

  always_ff @(posedge clk_i) begin
    source_port_write_q <= rst_ni && !phase_i && source_write;
    destination_port_write_q <= rst_ni && !phase_i && destination_write;
    if (phase_i) begin
      source_port_q <= source_i;
      destination_port_q <= destination_i;
      destination_found_q <= destination_found_i;
    end else begin
      source_port_q <= operand_cells_q.source;
      destination_port_q <= operand_cells_q.destination;
    end
  end

  ls_transfer_ram #(
      .Width($bits(cell_t)),
      .Depth(1 << CellBits),
      .Style(Style)
  ) u_cells (
      .clk_i,
      .a_write_i(source_port_write_q),
      .a_address_i(source_port_q),
      .a_data_i(source_write_q),
      .a_data_o(source_read),
      .b_write_i(destination_port_write_q),
      .b_address_i(destination_port_q),
      .b_data_i(destination_write_q),
      .b_data_o(destination_read)
`ifdef FORMAL,
      .content_o(content)
`endif
  );

  // ----------------------------------------------------------------------------- forwarding (c+2)
  // Who wrote last: 0 and 1: source and destination of the slot before; 2 and 3: of the slot two before.
  logic [3:0] source_from_d, source_from_q, destination_from_d, destination_from_q;
  cell_t source_d, source_q, destination_d, destination_q;
  // Synthesis keeps these wires, so that one look-up table for each bit comes after is_failing, the latest signal.
  (* keep *) cell_t newest_source_fail, newest_source_pass, newest_destination_fail, newest_destination_pass;

  function automatic logic [3:0] writers(input index_t index);
    return {
      destination_write_enable_q && destination_write_index_q == index,
      source_write_enable_q && source_write_index_q == index,
      operand_q.slot.valid && operand_q.destination_found && operand_cells_q.destination == index,
      operand_q.slot.valid && (operand_q.found || operand_q.is_new) && operand_cells_q.source == index
    };
  endfunction

  function automatic cell_t newest(input logic [3:0] from, input cell_t source, input cell_t destination,
                                   input cell_t read);
    if (from[0]) return source;
    if (from[1]) return destination;
    if (from[2]) return source_write_q;
    if (from[3]) return destination_write_q;
    return read;
  endfunction

  always_comb begin
    source_from_d = writers(read_cells_q.source);
    destination_from_d = writers(read_cells_q.destination);
    newest_source_fail = newest(source_from_q, source_fail, destination_fail, source_read);
    newest_source_pass = newest(source_from_q, source_pass, destination_pass, source_read);
    newest_destination_fail = newest(destination_from_q, source_fail, destination_fail, destination_read);
    newest_destination_pass = newest(destination_from_q, source_pass, destination_pass, destination_read);
    source_d = is_failing ? newest_source_fail : newest_source_pass;
    destination_d = is_failing ? newest_destination_fail : newest_destination_pass;
  end

  decoded_t decoded_q;


  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      read_q.slot.valid <= 1'b0;
      operand_q.slot.valid <= 1'b0;
      {decoded_q.is_operation, decoded_q.is_known, decoded_q.is_changing, decoded_q.reads} <= '0;
      {decoded_q.stores, decoded_q.grants} <= '0;
    end else if (!phase_i) begin
      read_q <= work_d;
      read_cells_q <= cells_d;
      operand_q <= read_q;
      operand_cells_q <= read_cells_q;
      decoded_q <= decode(read_q);
    end
    if (!phase_i) begin
      source_q <= source_d;
      destination_q <= destination_d;
    end else begin
      source_from_q <= source_from_d;
      destination_from_q <= destination_from_d;
    end
  end

  // ----------------------------------------------------------------------------- arithmetic (c+3)
  // Decides everything except whether the sums refuse the operation, which they do if is_summed and one of is_short and
  // is_over are 1. So the next cycle has one look-up table for each of its choices between contents that are prepared here,
  // which are choices of hundreds of bits.
  typedef struct packed {
    cell_t base;               // what the operation begins with, or what the order leaves
    amount_t balance;          // of the source, if the operation is executed
    logic frozen;
    amount_t sum;              // balance of the destination plus the amount
    version_t source_version;  // plus 1
    version_t destination_version;
    logic is_summed;           // the sums may refuse the operation
    logic is_short;            // the source cannot pay, or keeps more than the format of the reply can express
    logic is_over;             // the balance of the destination would be too large
    code_e code;               // if the sums do not refuse the operation
    code_e failing_code;       // if they do
    logic is_forwarded;
    logic is_repeated;         // the number is not larger than the last one of the account; nothing changes
    logic is_same;             // it is the same operation as the last one: the balance told is that of its reply
    // The following holds if the sums do not refuse the operation. If they do, it changes only the last number of the
    // source, its version and the credit, and only if refusal_spends.
    logic executes;            // the operation changes accounts
    logic pays;                // and is a TRANSFER
    logic writes;              // the operation changes the source
    logic numbers;             // the last number of the source becomes that of the operation
    logic stores;              // the operation or the order changes the source
    logic spends;              // the credit falls by 1
    logic records;
    logic refusal_spends;
    logic refusal_records;
    logic reads;
    logic tells;               // the result has the balance, which the operation does not change
    logic grants;
    logic has_cell;
    amount_t credit_less;
    amount_t credit_more;
  } values_t;

  values_t values_d, values_q;
  operation_t operation;
  logic unused_operation;
  amount_t sum, left;
  // total: what the destination will have, with what is held for it. rest: what is left of the source without what is
  // held; negative if the funds do not suffice. If more is held than the balance, which the host must not write, no
  // payment is possible; the XDP program wraps.
  low_t total_low, rest_low;
  high_t held_total, held_rest;  // high halves, without the amount
  high_t [MaxCarry:0] totals, rests;  // by the carry from the low half
  logic [1:0] carry, borrow;
  // Of the paper's format: the low bits of the source are less than the amount, those of the destination exceed the
  // format with it.
  logic [PaperBits:0] paper_rest, paper_total;
  logic unused_sums;
  amount_t credit_d, credit_q;  // refusals of numbered requests that may still be recorded
  logic is_operation, is_numbered, is_known, is_changing, is_reading, is_frozen, is_claimed, is_answered, is_stale;
  logic is_same_body, is_insufficient, is_left_over, is_large, is_plain, is_refusal, is_settled, has_credit, keeps;
  logic is_too_large;
  code_e early, repeated_code;
  logic [AmountBits-PaperBits-1:0] source_high;  // above the paper's format

  assign operation = operand_q.slot.operation;
  assign unused_operation = &{1'b0, operation, operand_q.is_same_account};
  assign sum = destination_q.balance + operation.amount;
  assign total_low = low_t'(destination_q.balance[LowBits-1:0]) + low_t'(destination_q.held_in[LowBits-1:0]) +
      low_t'(operation.amount[LowBits-1:0]);
  assign rest_low = low_t'(source_q.balance[LowBits-1:0]) - low_t'(source_q.held_out[LowBits-1:0]) -
      low_t'(operation.amount[LowBits-1:0]);
  assign held_total = high_t'(destination_q.balance >> LowBits) + high_t'(destination_q.held_in >> LowBits);
  assign held_rest = high_t'(source_q.balance >> LowBits) - high_t'(source_q.held_out >> LowBits);
  for (genvar i = 0; i <= int'(MaxCarry); i++) begin : gen_carry
    assign totals[i] = held_total + decoded_q.highs[i];
    assign rests[i]  = held_rest - decoded_q.highs[i];
  end
  assign carry = total_low[LowBits+1:LowBits];
  assign borrow = -rest_low[LowBits+1:LowBits];
  assign paper_total = (PaperBits + 1)'(destination_q.balance[PaperBits-1:0]) +
      (PaperBits + 1)'(operation.amount[PaperBits-1:0]);
  assign paper_rest = (PaperBits + 1)'(source_q.balance[PaperBits-1:0]) -
      (PaperBits + 1)'(operation.amount[PaperBits-1:0]);
  assign unused_sums = &{1'b0, total_low, rest_low, totals, rests, paper_total, paper_rest};
  assign left = source_q.balance - operation.amount;

  assign is_operation = decoded_q.is_operation;
  assign is_numbered  = decoded_q.is_numbered;
  assign is_reading   = decoded_q.is_reading;
  assign is_known     = decoded_q.is_known;
  assign is_changing  = decoded_q.is_changing;

  always_comb begin
    is_frozen = source_q.frozen ||
        (operand_q.destination_found && destination_q.frozen);
    is_claimed = source_q.claimed ||
        (operand_q.destination_found && destination_q.claimed);
    is_answered = is_numbered && source_q.last.number != '0 &&
        operation.number <= source_q.last.number;
    is_stale = operation.number != source_q.last.number;
    is_same_body =
        operation.destination[IdBits-1-:PaperBits] == source_q.last.destination &&
        operation.amount[PaperBits-1:0] == source_q.last.amount &&
        operation.command == source_q.last.command;
    has_credit = !(credit_q == '0);
    keeps = operation.keep_refusals && operand_q.slot.has_place;

    // The code without the sums.
    is_large = decoded_q.is_paper && source_q.balance[AmountBits-1:PaperBits] != '0;  // for the format of the reply
    is_settled = decoded_q.is_refused || (decoded_q.may_freeze && is_frozen) || (decoded_q.reads && is_large);
    early = CodeDone;
    if (decoded_q.is_refused) early = decoded_q.code;
    else if (decoded_q.may_freeze && is_frozen) early = CodeFrozen;
    else if (decoded_q.reads && is_large) early = CodeOverflow;

    values_d.is_forwarded = is_changing && is_claimed;
    values_d.is_repeated = is_changing && !is_claimed && is_answered;
    values_d.is_same = values_d.is_repeated && !is_stale && is_same_body;
    is_plain = !values_d.is_forwarded;
    // A refusal of a numbered request needs credit.
    is_refusal = is_plain && is_changing && is_numbered;

    // The sums refuse a TRANSFER of more than the source may pay, and one that leaves a balance that the format of the
    // reply cannot express (is_short), or makes one of the destination that is too large (is_over). An amount that
    // exceeds the format itself is refused for the destination.
    is_insufficient = rests[borrow][HighBits+1];
    source_high = source_q.balance[AmountBits-1:PaperBits];
    is_left_over = decoded_q.is_paper &&
        ((source_high >> 1) != '0 || (source_high[0] && !paper_rest[PaperBits]));
    is_too_large = decoded_q.is_paper && (decoded_q.is_beyond_paper ||
        destination_q.balance[AmountBits-1:PaperBits] != '0 || paper_total[PaperBits]);
    values_d.is_summed = is_known && is_plain && !is_settled && !values_d.is_repeated;
    values_d.is_short = decoded_q.is_transfer && (is_insufficient || is_left_over);
    values_d.is_over = (decoded_q.is_transfer || decoded_q.is_issue) &&
        (totals[carry][HighBits+1:HighBits] != '0 || is_too_large);

    // A refusal without credit is not recorded, and answered `busy`.
    if (is_refusal && !has_credit) values_d.failing_code = CodeBusy;
    else if (decoded_q.is_transfer && is_insufficient) values_d.failing_code = CodeInsufficientFunds;
    else values_d.failing_code = CodeOverflow;
    if (is_stale) repeated_code = CodeStaleId;
    else repeated_code = is_same_body ? source_q.last.code : CodeIdReused;
    values_d.code = early;
    if (is_settled && is_changing && is_numbered && !has_credit) values_d.code = CodeBusy;
    if (is_changing && is_claimed) values_d.code = CodeBusy;
    if (operand_q.slot.is_order) values_d.code = decoded_q.order_code;
    if (values_d.is_repeated) values_d.code = repeated_code;

    values_d.executes = !values_d.is_repeated && is_operation && is_plain && !is_reading && !is_settled;
    values_d.pays = values_d.executes && decoded_q.is_transfer;
    values_d.refusal_spends = is_refusal && has_credit;
    values_d.spends = !values_d.is_repeated && values_d.refusal_spends && is_settled;
    values_d.writes = values_d.executes || values_d.spends;
    values_d.numbers = values_d.writes && is_numbered;
    values_d.stores = values_d.writes || decoded_q.stores;
    values_d.refusal_records = is_refusal ? has_credit : keeps;
    values_d.records = !values_d.is_repeated && (values_d.executes ||
        (is_operation && is_plain && (is_refusal && is_settled ? has_credit : keeps)));
    values_d.reads = decoded_q.reads;
    values_d.tells = values_d.reads && !is_settled;

    values_d.sum = sum;
    values_d.source_version = operand_q.is_new ? version_t'(1) : source_q.version + 1'b1;
    values_d.destination_version = destination_q.version + 1'b1;
    if (decoded_q.is_transfer) values_d.balance = left;
    else if (decoded_q.is_issue) values_d.balance = sum;
    else if (decoded_q.is_create) values_d.balance = operation.amount;
    else values_d.balance = source_q.balance;
    values_d.frozen = decoded_q.is_freeze || (source_q.frozen && !decoded_q.is_unfreeze && !decoded_q.is_create);

    // The cell that the operation begins with, or that the order leaves.
    values_d.base = source_q;
    if (decoded_q.takes_account) values_d.base = operand_q.slot.account;
    if (decoded_q.is_blank) values_d.base = '0;
    values_d.base.last = source_q.last;
    if (decoded_q.takes_last) values_d.base.last = operand_q.slot.account.last;
    if (decoded_q.is_last_blank) values_d.base.last = '0;
    if (decoded_q.claims) values_d.base.claimed = 1'b1;
    if (decoded_q.releases) values_d.base.claimed = 1'b0;
    values_d.grants = decoded_q.grants;
    values_d.has_cell = (operand_q.found || operand_q.is_new) && !values_d.grants;
    values_d.credit_less = credit_q - 1'b1;
    values_d.credit_more = credit_q + operand_q.slot.account.balance;
  end

  always_ff @(posedge clk_i) begin
    if (phase_i) values_q <= values_d;
    // The first decision after a reset comes before the first values.
    if (!rst_ni) begin
      {values_q.executes, values_q.pays, values_q.writes, values_q.stores, values_q.refusal_spends} <= '0;
      {values_q.grants, values_q.spends} <= '0;
    end
  end

  // ------------------------------------------------------------------------------- decision (c+4)
  logic is_executed;
  code_e code;
  cell_t source_next, destination_next;
  slot_t slot_q;
  logic done_q;
  logic [CellBits:0] claims_d, claims_q;  // number of claimed accounts

  // Flags of the outcome. One cycle later they choose which fields of the new cells are in result, record and response,
  // because wires from the decision to these hundreds of bits would be long.
  typedef struct packed {
    code_e code;
    logic is_forwarded;
    logic is_repeated;
    logic is_same;
    logic is_recorded;
    logic is_executed;
    logic tells;
    logic reads;
    logic grants;
    logic has_cell;
  } outcome_t;

  outcome_t outcome_d, outcome_q;

  // Returns what a slot leaves in its source.
  function automatic cell_t changed(input logic executes, input logic writes, input logic numbers,
                                    input code_e outcome);
    cell_t source;
    source = values_q.base;
    if (executes) begin
      source.balance = values_q.balance;
      source.frozen  = values_q.frozen;
    end
    if (writes) source.version = values_q.source_version;
    if (numbers) begin
      source.last = '{
          number: operation.number,
          destination: operation.destination[IdBits-1-:PaperBits],
          amount: operation.amount[PaperBits-1:0],
          command: operation.command,
          code: outcome,
          reply: executes ? values_q.balance[PaperBits-1:0] : '0
      };
    end
    return source;
  endfunction

  // What happens to the accounts.
  always_comb begin
    is_failing = values_q.is_summed && (values_q.is_short || values_q.is_over);
    is_executed = values_q.executes && !is_failing;
    source_write = is_failing ? values_q.refusal_spends : values_q.stores;
    destination_write = values_q.pays && !is_failing;
    code = is_failing ? values_q.failing_code : values_q.code;
    credit_d = credit_q;
    if (values_q.grants) credit_d = values_q.credit_more;
    else if (is_failing ? values_q.refusal_spends : values_q.spends) credit_d = values_q.credit_less;

    // The new cells. A cell that is not changed keeps its content, because the next slots may take it from here.
    source_fail = changed(1'b0, values_q.refusal_spends, values_q.refusal_spends, values_q.failing_code);
    source_pass = changed(values_q.executes, values_q.writes, values_q.numbers, values_q.code);
    destination_fail = destination_q;
    destination_pass = destination_q;
    if (values_q.pays) begin
      destination_pass.balance = values_q.sum;
      destination_pass.version = values_q.destination_version;
    end
    source_next = is_failing ? source_fail : source_pass;
    destination_next = is_failing ? destination_fail : destination_pass;

    outcome_d = '{
        code: code,
        is_forwarded: values_q.is_forwarded,
        is_repeated: values_q.is_repeated,
        is_same: values_q.is_same,
        is_recorded: is_failing ? values_q.refusal_records : values_q.records,
        is_executed: is_executed,
        tells: values_q.tells,
        reads: values_q.reads,
        grants: values_q.grants,
        has_cell: values_q.has_cell
    };
  end

  // An operation leaves the claim of an account as it is, and creates an account without one.
  always_comb begin
    claims_d = claims_q;
    if (operand_q.slot.valid && operand_q.slot.is_order) begin
      if ((operand_q.found && operand_q.slot.kind != OrderRemove) || operand_q.is_new)
        claims_d = claims_d + (CellBits + 1)'(source_next.claimed);
      if (operand_q.found) claims_d = claims_d - (CellBits + 1)'(source_q.claimed);
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      slot_q.valid <= 1'b0;
      source_write_enable_q <= 1'b0;
      destination_write_enable_q <= 1'b0;
      credit_q <= '0;
      claims_q <= '0;
    end else if (!phase_i) begin
      claims_q <= claims_d;
      slot_q <= operand_q.slot;
      source_write_enable_q <= source_write;
      destination_write_enable_q <= destination_write;
      credit_q <= credit_d;
    end
    if (!phase_i) begin
      source_write_index_q <= operand_cells_q.source;
      destination_write_index_q <= operand_cells_q.destination;
      source_write_q <= source_next;
      destination_write_q <= destination_next;
      outcome_q <= outcome_d;
    end
  end

  always_ff @(posedge clk_i) begin
    done_q <= rst_ni && !phase_i && operand_q.slot.valid;
    is_claimed_o <= rst_ni && claims_q != '0;
  end

  // -------------------------------------------------------------------------------- outcome (c+5)
  // The cells that were written, or what they would have been, have all that the outcome tells of the accounts.
  assign done_o = done_q;
  assign slot_o = slot_q;

  always_comb begin
    result_o = '0;
    result_o.user = slot_q.operation.user;
    result_o.code = outcome_q.code;
    result_o.is_full = slot_q.is_busy;
    result_o.forward = outcome_q.is_forwarded;
    result_o.repeated = outcome_q.is_repeated;
    result_o.recorded = outcome_q.is_recorded;
    if (outcome_q.is_executed || outcome_q.tells) result_o.balance = source_write_q.balance;
    else if (outcome_q.is_same) result_o.balance = amount_t'(source_write_q.last.reply);
    if (destination_write_enable_q) result_o.destination_balance = destination_write_q.balance;
    if (outcome_q.reads) begin
      result_o.held = source_write_q.held_out;
      result_o.version = source_write_q.version;
      result_o.frozen = source_write_q.frozen;
    end
  end

  assign record_o = '{
          user: slot_q.operation.user,
          code: outcome_q.code,
          command: slot_q.operation.command,
          number: slot_q.operation.number,
          source: slot_q.operation.source,
          destination: slot_q.operation.destination,
          amount: slot_q.operation.amount,
          source_version: source_write_enable_q ? source_write_q.version : '0,
          destination_version: destination_write_enable_q ? destination_write_q.version : '0,
          source_balance: outcome_q.is_executed ? source_write_q.balance : '0
      };

  // After an order.
  always_comb begin
    cell_o = outcome_q.has_cell ? source_write_q : '0;
    if (outcome_q.grants) cell_o.balance = credit_q;
  end

`ifdef FORMAL
  // Invariants of the stages, for the proofs of this module and of ls_transfer_store.
  always_comb begin
    if (rst_ni) begin
      assert (is_contract(read_q.slot) && is_contract(operand_q.slot) && is_contract(slot_q));
      assert (done_q == (phase_i && slot_q.valid));
      assert (source_port_write_q == (phase_i && source_write_enable_q));
      assert (destination_port_write_q == (phase_i && destination_write_enable_q));
      if (source_port_write_q) assert (source_port_q == source_write_index_q);
      if (destination_port_write_q) assert (destination_port_q == destination_write_index_q);
      if (slot_q.valid && !slot_q.is_order) begin
        assert (!outcome_q.is_recorded || slot_q.has_place);
      end
    end
  end
  assign stages_o = '{slot_q, operand_q.slot, read_q.slot};
`endif

`ifdef FORMAL_EXECUTE
  // The proof compares the pipeline with `accounts_q`, in which each slot takes effect at once, in the cycle of its
  // decision. Its initial state is the memory's, which is free. `live_q` tells which cells have an account.
  localparam int unsigned Cells = 1 << CellBits;
  localparam int unsigned SumBits = AmountBits + CellBits + 1;

  cell_t [Cells-1:0] accounts_q, accounts_d;
  logic [Cells-1:0] live_q, live_d;
  logic is_decided, is_removed;
  amount_t limit;
  logic [SumBits-1:0] total_q, total_d, added;
  cell_t payer, payee;

  assign is_decided = !phase_i && operand_q.slot.valid && rst_ni;
  assign limit = operation.is_paper ? PaperLimit : '1;
  assign is_removed = operand_q.slot.is_order && operand_q.slot.kind == OrderRemove;
  assign payer = accounts_q[operand_cells_q.source];
  assign payee = accounts_q[operand_cells_q.destination];

  always_comb begin
    accounts_d = accounts_q;
    live_d = live_q;
    if (is_decided) begin
      if (source_write) accounts_d[operand_cells_q.source] = source_next;
      if (destination_write) accounts_d[operand_cells_q.destination] = destination_next;
      if (operand_q.is_new) live_d[operand_cells_q.source] = 1'b1;
      if (operand_q.found && is_removed) live_d[operand_cells_q.source] = 1'b0;
    end
    total_q = '0;
    total_d = '0;
    for (int unsigned i = 0; i < Cells; i++) begin
      if (live_q[i]) total_q += SumBits'(accounts_q[i].balance);
      if (live_d[i]) total_d += SumBits'(accounts_d[i].balance);
    end
  end

  always_ff @(posedge clk_i) begin
    accounts_q <= rst_ni ? accounts_d : content;
    live_q <= live_d;
  end

  // Environment: the contract of the inputs, which ls_transfer_search and ls_transfer_store keep.
  logic past_valid_q, past_running_q, past_phase_q, past_found_q, past_new_q;
  slot_t past_slot_q;
  index_t past_source_q;

  initial past_valid_q = 1'b0;

  always_ff @(posedge clk_i) begin
    past_valid_q <= 1'b1;
    past_running_q <= rst_ni;
    past_phase_q <= phase_i;
    past_slot_q <= slot_i;
    past_source_q <= source_i;
    past_found_q <= source_found_i;
    past_new_q <= source_new_i;
  end

  always_comb begin
    if (past_valid_q) begin
      assume (phase_i == (past_running_q && !past_phase_q));
      if (!phase_i) begin
        assume (slot_i == past_slot_q && source_i == past_source_q);
        assume (source_found_i == past_found_q && source_new_i == past_new_q);
      end
    end else begin
      // The last cycle of the reset. The input has no valid slot, so the first valid one begins with its first cycle.
      assume (!slot_i.valid);
      assume (!rst_ni && !phase_i && !source_port_write_q && !destination_port_write_q);
      for (int unsigned i = 0; i < Cells; i++) begin
        if (live_q[i]) assume (is_possible(content[i]) && !content[i].claimed);
      end
    end
    if (past_valid_q) assume (rst_ni);
    assume (!(source_found_i && source_new_i));
    if (source_new_i) begin
      assume (slot_i.is_order ? slot_i.kind inside {OrderFill, OrderPut} :
          slot_i.operation.command == CommandCreate && !slot_i.is_busy &&
          slot_i.operation.refused == CodeDone &&
          !(slot_i.operation.is_paper && slot_i.operation.amount > PaperLimit));
    end
    assume (is_contract(slot_i));
    assume (slot_i.operation.number == '0 || slot_i.operation.is_paper);
    if (phase_i && destination_found_i) begin
      assume (!slot_i.is_order && slot_i.operation.command == CommandTransfer);
      assume (slot_i.operation.source != slot_i.operation.destination);
      assume (destination_i != source_i);
    end
    if (phase_i && slot_i.operation.command != CommandTransfer) assume (destination_i == source_i);
    // What the search finds exists, and what it creates does not exist, when the slot has its turn.
    if (is_decided) begin
      if (operand_q.found) assume (live_q[operand_cells_q.source]);
      if (operand_q.is_new) assume (!live_q[operand_cells_q.source]);
      if (operand_q.destination_found) assume (live_q[operand_cells_q.destination]);
      // The host writes accounts that are possible.
      if (operand_q.slot.is_order) assume (is_possible(operand_q.slot.account));
    end
  end

  function automatic logic is_possible(input cell_t account);
    return account.held_out <= account.balance &&
        ({1'b0, account.balance} + {1'b0, account.held_in}) <= {1'b0, {AmountBits{1'b1}}};
  endfunction

  logic [CellBits:0] claims;

  always_comb begin
    claims = '0;
    for (int unsigned i = 0; i < Cells; i++) claims += (CellBits + 1)'(live_q[i] && accounts_q[i].claimed);
  end

  // Amount by which the sum of all balances may change.
  always_comb begin
    added = '0;
    if (is_decided && !operand_q.slot.is_order && is_executed &&
        operation.command inside {CommandCreate, CommandIssue}) begin
      added = SumBits'(operation.amount);
    end
  end

  always_comb begin
    // What the cycle before has prepared.
    if (rst_ni && past_running_q && past_phase_q && !phase_i) assert (values_q == values_d);
    if (rst_ni && operand_q.slot.valid) assert (decoded_q == decode(operand_q));
    // The memory allows only one write to an address.
    if (rst_ni && source_write_enable_q && destination_write_enable_q)
      assert (source_write_index_q != destination_write_index_q);
    // The memory, with the writes that are under way, is what the operations before have left.
    if (rst_ni && past_valid_q) begin
      assert (claims_q == claims);
      if (!phase_i) assert (is_claimed_o == (claims != '0));
      for (int unsigned i = 0; i < Cells; i++) begin
        if (live_q[i]) begin
          // What is held can be paid, and what is to come fits.
          assert (is_possible(accounts_q[i]));
          if (source_write_enable_q && source_write_index_q == index_t'(i))
            assert (accounts_q[i] == source_write_q);
          else if (destination_write_enable_q && destination_write_index_q == index_t'(i))
            assert (accounts_q[i] == destination_write_q);
          else assert (accounts_q[i] == content[i]);
        end
      end
    end
    // The outcome tells what the accounts have after it. No slot comes between, so accounts_q is still that.
    if (rst_ni && past_running_q && done_o && !slot_o.is_order) begin
      if (outcome_q.is_executed) assert (result_o.balance == accounts_q[source_write_index_q].balance);
      if (outcome_q.is_executed) assert (record_o.source_balance == result_o.balance);
      if (outcome_q.is_executed) assert (record_o.source_version == accounts_q[source_write_index_q].version);
      if (result_o.destination_balance != '0 || record_o.destination_version != '0) begin
        assert (destination_write_enable_q);
        assert (result_o.destination_balance == accounts_q[destination_write_index_q].balance);
        assert (record_o.destination_version == accounts_q[destination_write_index_q].version);
      end
      if (result_o.forward || result_o.code != CodeDone) assert (record_o.source_balance == '0);
      if (result_o.held != '0) assert (result_o.held == accounts_q[source_write_index_q].held_out);
    end
    if (is_decided) begin
      // Forwarding: each slot sees the effects of all slots before it.
      if (operand_q.found) assert (source_q == payer);
      if (operand_q.destination_found) assert (destination_q == payee);
      assert (!(source_write && destination_write && operand_cells_q.source == operand_cells_q.destination));
      // A write reaches only an account of this slot.
      if (source_write) assert (operand_q.found || operand_q.is_new);
      if (destination_write) assert (operand_q.destination_found);
    end
    if (is_decided && !operand_q.slot.is_order) begin
      // Conservation. The proof of this line uses the one above, so it needs no sum in the pipeline.
      assert (total_d == total_q + added);
      // No effect without a record, and no record without a reserved place.
      if (source_write || destination_write) assert (outcome_d.is_recorded);
      if (outcome_d.is_recorded) assert (operand_q.slot.has_place);
      // Refusals change no balance.
      if (outcome_d.code != CodeDone || outcome_d.is_forwarded || outcome_d.is_repeated) begin
        assert (!is_executed && !destination_write);
        if (operand_q.found) assert (source_next.balance == payer.balance);
      end
      if (operand_q.slot.is_busy || operation.refused != CodeDone || is_reading ||
          outcome_d.is_forwarded || outcome_d.is_repeated)
        assert (!source_write && !destination_write);
      // Only a claimed account makes an operation one of the host.
      if (outcome_d.is_forwarded) assert (is_claimed_o);
      // A claimed account is changed by the host only.
      if (source_write && operand_q.found) assert (!payer.claimed);
      if (destination_write) assert (!payee.claimed && !payer.claimed);
      // Rules of TRANSFER.
      if (is_executed && operation.command == CommandTransfer) begin
        assert (destination_write && !payer.frozen && !payee.frozen);
        assert (SumBits'(payer.held_out) + SumBits'(operation.amount) <= SumBits'(payer.balance));
        assert (source_next.balance == payer.balance - operation.amount);
        assert (SumBits'(destination_next.balance) ==
            SumBits'(payee.balance) + SumBits'(operation.amount));
        assert (destination_next.balance <= limit && source_next.balance <= limit);
      end
      // Exactly once: a number is executed only if it is above the last one, and then it is the last one.
      if (source_write && operand_q.found && operation.number != '0 && payer.last.number != '0)
        assert (operation.number > payer.last.number);
      if (source_write && operation.number != '0)
        assert (source_next.last.number == operation.number);
      if (source_write && operand_q.found && operation.number == '0)
        assert (source_next.last == payer.last);
      // The credit falls by one with each recorded refusal of a number, and with nothing else.
      assert (credit_d == credit_q || credit_d == credit_q - 1'b1);
      if (credit_d != credit_q)
        assert (credit_q != '0 && outcome_d.is_recorded && outcome_d.code != CodeDone &&
            operation.number != '0);
      // Amounts of pending transfers are changed by the host only.
      if (source_write && operand_q.found)
        assert (source_next.held_out == payer.held_out && source_next.held_in == payer.held_in);
    end
  end
`endif

endmodule
