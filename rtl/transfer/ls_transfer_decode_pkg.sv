// SPDX-License-Identifier: Apache-2.0
//
// What a slot says about its execution before the contents of its accounts are known. ls_transfer_execute keeps the
// result of `decode` in registers.

package ls_transfer_decode_pkg;

  import ls_transfer_pkg::*;

  // A slot, and what the search has found for it.
  typedef struct packed {
    slot_t slot;
    logic  found;              // the source is in the table
    logic  is_new;             // the source is created
    logic  destination_found;
    logic  is_same_account;    // source and destination have the same id
  } work_t;

  // Sums of three amounts are computed in two halves at once: the high half for each carry from the low half, of which
  // the low half then chooses one. Each half has two more bits than its terms. The low half is the larger one, so that
  // the narrow amounts of the proof have all carries, too.
  localparam int unsigned LowBits = AmountBits - AmountBits / 2;
  localparam int unsigned HighBits = AmountBits - LowBits;
  localparam int unsigned MaxCarry = 2;
  typedef logic [LowBits+1:0] low_t;
  typedef logic [HighBits+1:0] high_t;

  // What an operation needs, apart from the cells.
  typedef struct packed {
    logic is_operation;
    logic is_numbered;
    logic is_reading;
    // The operation reaches an existing account: only then numbers, claims and the credit count.
    logic is_known;
    logic is_changing;
    logic is_create;
    logic is_issue;
    logic is_transfer;
    logic is_freeze;
    logic is_unfreeze;
    logic is_refused;   // whatever the cells contain
    code_e code;        // in that case
    logic may_freeze;   // frozen accounts refuse the operation
    logic reads;
    logic stores;       // an order that changes the source
    logic grants;
    code_e order_code;  // carried by the response to an order
    // Content of the cell before an operation, or after an order. Each chooses hundreds of bits, so it is a register.
    logic takes_account;  // that of the order, but for its last request
    logic takes_last;     // the last request of the order
    logic is_blank;       // a new account of an operation
    logic is_last_blank;
    logic claims;
    logic releases;
    logic is_paper;
    logic is_beyond_paper;  // the amount is larger than any balance that the paper's format can express
    high_t [MaxCarry:0] highs;  // the high half of the amount plus 0, 1 and 2
  } decoded_t;

  function automatic decoded_t decode(input work_t work);
    decoded_t decoded;
    operation_t asked;
    logic is_checked, unused;
    unused = &{1'b0, work};
    asked = work.slot.operation;
    unused = &{unused, asked};
    is_checked = !work.slot.is_busy && asked.refused == CodeDone && work.found;
    decoded.is_operation = work.slot.valid && !work.slot.is_order;
    decoded.is_numbered = asked.number != '0;
    decoded.is_reading = asked.command == CommandRefer;
    decoded.is_known = decoded.is_operation && is_checked;
    decoded.is_changing = decoded.is_known && !decoded.is_reading;
    decoded.is_create = asked.command == CommandCreate;
    decoded.is_issue = asked.command == CommandIssue;
    decoded.is_transfer = asked.command == CommandTransfer;
    decoded.is_freeze = asked.command == CommandFreeze;
    decoded.is_unfreeze = asked.command == CommandUnfreeze;
    decoded.reads = decoded.is_known && decoded.is_reading;
    decoded.is_beyond_paper = asked.amount[AmountBits-1:PaperBits] != '0;
    decoded.code = CodeDone;
    if (work.slot.is_busy) decoded.code = CodeBusy;
    else if (asked.refused != CodeDone) decoded.code = asked.refused;
    else if (work.found) begin
      if (decoded.is_create) decoded.code = CodeAccountExists;
      if (decoded.is_transfer) begin
        if (work.is_same_account) decoded.code = CodeSameAccount;
        else if (!work.destination_found) decoded.code = CodeUnknownAccount;
      end
    end else if (!decoded.is_create) decoded.code = CodeUnknownAccount;
    else if (!work.is_new) begin
      decoded.code = asked.is_paper && decoded.is_beyond_paper ? CodeOverflow : CodeStoreFull;
    end
    decoded.is_refused = decoded.code != CodeDone;
    decoded.may_freeze = is_checked && !decoded.is_refused && (decoded.is_issue || decoded.is_transfer);
    decoded.takes_last = work.slot.is_order && work.slot.kind == OrderFill;
    decoded.takes_account = decoded.takes_last || (work.slot.is_order && work.slot.kind == OrderPut);
    decoded.is_blank = !work.slot.is_order && work.is_new;
    decoded.is_last_blank = decoded.is_blank ||
        (work.slot.is_order && work.slot.kind == OrderPut && !work.found);
    decoded.is_paper = asked.is_paper;
    for (int unsigned i = 0; i <= MaxCarry; i++) decoded.highs[i] = high_t'(asked.amount >> LowBits) + high_t'(i);
    decoded.claims = work.slot.is_order && work.slot.kind == OrderClaim;
    decoded.releases = work.slot.is_order && work.slot.kind == OrderRelease;
    decoded.stores = 1'b0;
    case (work.slot.kind)
      OrderFill, OrderPut: decoded.stores = work.found || work.is_new;
      OrderClaim, OrderRelease: decoded.stores = work.found;
      default: ;
    endcase
    decoded.stores &= work.slot.valid && work.slot.is_order;
    decoded.grants = work.slot.valid && work.slot.is_order && work.slot.kind == OrderGrant;
    if (work.slot.kind == OrderGrant || work.found || work.is_new) decoded.order_code = CodeDone;
    else decoded.order_code = work.slot.kind inside {OrderFill, OrderPut} ? CodeStoreFull : CodeUnknownAccount;
    return decoded;
  endfunction

endpackage
