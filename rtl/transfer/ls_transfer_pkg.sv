// SPDX-License-Identifier: Apache-2.0
//
// Types and constants of the store of `transfer`. Account ids are in wire byte order, with the first byte in bits 7:0.
// LS_TRANSFER_SMALL selects the narrow types with which the formal proofs run.

package ls_transfer_pkg;

  import ls_pkg::*;

`ifdef LS_TRANSFER_SMALL
  localparam int unsigned IdBits = 2;
  localparam int unsigned AmountBits = 3;
  localparam int unsigned PaperBits = 2;
  localparam int unsigned VersionBits = 2;
  localparam int unsigned UserBits = 3;
  localparam int unsigned Ways = 2;
`else
  localparam int unsigned IdBits = 128;
  localparam int unsigned AmountBits = 64;
  // Amounts, transaction ids and accounts in the paper's format.
  localparam int unsigned PaperBits = 32;
  localparam int unsigned VersionBits = 64;
  localparam int unsigned UserBits = 32;
  localparam int unsigned Ways = TransferBucketCells;
`endif
  localparam int unsigned WayBits = $clog2(Ways);
  localparam int unsigned HashKeyBits = 192;

  // Number of used cells in the first bucket from which an account may also be created in the second one.
  localparam int unsigned Crowded = 2;

  typedef logic [IdBits-1:0] id_t;
  typedef logic [AmountBits-1:0] amount_t;
  typedef logic [PaperBits-1:0] paper_t;
  typedef logic [VersionBits-1:0] version_t;
  typedef logic [UserBits-1:0] user_t;

  // Largest balance that the paper's format can express.
  localparam amount_t PaperLimit = amount_t'({PaperBits{1'b1}});

  // Result codes of an operation that the fast path gives.
  typedef enum logic [3:0] {
    CodeDone = 4'(TransferCodeDone),
    CodeUnknownAccount = 4'(TransferCodeUnknownAccount),
    CodeAccountExists = 4'(TransferCodeAccountExists),
    CodeInsufficientFunds = 4'(TransferCodeInsufficientFunds),
    CodeOverflow = 4'(TransferCodeOverflow),
    CodeSameAccount = 4'(TransferCodeSameAccount),
    CodeStoreFull = 4'(TransferCodeStoreFull),
    CodeStaleId = 4'(TransferCodeStaleId),
    CodeBusy = 4'(TransferCodeBusy),
    CodeFrozen = 4'(TransferCodeFrozen),
    CodeBadCommand = 4'(TransferCodeBadCommand),
    CodeIdReused = 4'(TransferCodeIdReused),
    CodeUnauthorised = 4'(TransferCodeUnauthorised)
  } code_e;

  // Commands of clients. Every other value of the field is a bad command.
  localparam logic [3:0] CommandCreate = 4'(TransferCommandCreate);
  localparam logic [3:0] CommandIssue = 4'(TransferCommandIssue);
  localparam logic [3:0] CommandTransfer = 4'(TransferCommandTransfer);
  localparam logic [3:0] CommandRefer = 4'(TransferCommandRefer);
  localparam logic [3:0] CommandFreeze = 4'(TransferCommandFreeze);
  localparam logic [3:0] CommandUnfreeze = 4'(TransferCommandUnfreeze);

  // Orders of the host, in the order of the commands from CommandTransferRead on.
  typedef enum logic [3:0] {
    OrderRead = 4'd0,     // returns the account
    OrderFill = 4'd1,     // writes the whole account; creates it if it is not in the table
    OrderPut = 4'd2,      // as OrderFill, but the account keeps its last numbered request
    OrderRemove = 4'd3,   // removes the account, and returns it
    OrderClaim = 4'd4,    // from now on only the host changes the account; returns it
    OrderRelease = 4'd5,  // ends OrderClaim
    // Adds account.balance to the credit for refusals of numbered requests; returns the credit.
    OrderGrant = 4'd6
  } order_e;

  // Last numbered request of an account, and its reply. A number of 0 means none.
  typedef struct packed {
    paper_t number;
    paper_t destination;
    paper_t amount;
    logic [3:0] command;
    code_e code;
    paper_t reply;
  } last_t;

  // Contents of one account.
  typedef struct packed {
    amount_t balance;
    amount_t held_out;  // part of the balance that pending transfers reserve
    amount_t held_in;   // pending transfers to the account
    version_t version;  // number of changes
    logic frozen;
    logic claimed;
    last_t last;
  } cell_t;

  // Request of a client.
  typedef struct packed {
    user_t user;          // returned with result and record
    logic keep_refusals;  // 1: a refusal has a record too (request of a session)
    logic is_paper;  // 1: no balance above PaperLimit
    code_e refused;  // not CodeDone: refused by the caller; the operation has no effect
    logic [3:0] command;
    paper_t number;  // transaction id of the paper's format, 0 if none; requires is_paper
    id_t source;
    id_t destination;
    amount_t amount;
  } operation_t;

  // Result of a request.
  typedef struct packed {
    user_t user;
    code_e code;
    logic forward;   // 1: the host has claimed an account and must execute; nothing was done
    logic repeated;  // 1: decided by the account's last number; nothing was done
    logic is_full;   // 1: busy because the record stream has no place; nothing was done
    logic recorded;  // 1: the request has a record
    amount_t balance;  // of the source after the operation; 0 for a refusal
    amount_t destination_balance;  // of the destination after a TRANSFER; else 0
    amount_t held;       // of the source, for REFER
    version_t version;   // of the source, for REFER
    logic frozen;        // of the source, for REFER
  } result_t;

  // Record of an operation for the host's journal.
  typedef struct packed {
    user_t user;
    code_e code;
    logic [3:0] command;
    paper_t number;
    id_t source;
    id_t destination;
    amount_t amount;
    version_t source_version;       // after the operation; 0 if the account was not changed
    version_t destination_version;
    amount_t source_balance;        // after the operation; 0 for a refusal
  } record_t;

  // Order of the host.
  typedef struct packed {
    user_t user;
    logic linked;  // 1: no operation is executed between this order and the next one
    order_e kind;
    id_t id;
    cell_t account;
  } order_t;

  // Response to an order: CodeDone, CodeUnknownAccount or CodeStoreFull, and the account after the order.
  // `records` counts the records since reset whose operations were executed before the order.
  typedef struct packed {
    user_t user;
    code_e code;
    version_t records;
    cell_t account;
  } response_t;

  // One request or order as it travels through the store.
  typedef struct packed {
    logic valid;
    logic is_order;
    logic is_busy;    // the record stream has no place
    logic has_place;  // a place in the record stream is reserved
    operation_t operation;
    order_e kind;
    cell_t account;
  } slot_t;

`ifdef FORMAL
  // What the acceptance guarantees for each slot. ls_transfer_store proves it; ls_transfer_execute relies on it.
  function automatic logic is_contract(input slot_t slot);
    logic is_good;
    if (!slot.valid) return 1'b1;
    if (slot.is_order) begin
      return !slot.is_busy && !slot.has_place && slot.operation.refused == CodeDone;
    end
    is_good = !(slot.is_busy && slot.has_place);
    if (slot.operation.command == CommandRefer) is_good &= !slot.is_busy && !slot.has_place;
    else if (slot.operation.refused == CodeDone || slot.operation.keep_refusals) begin
      is_good &= slot.is_busy || slot.has_place;
    end
    if (slot.operation.refused == CodeDone) begin
      is_good &= slot.operation.command >= CommandCreate &&
          slot.operation.command <= CommandUnfreeze;
    end
    return is_good;
  endfunction
`endif

endpackage
