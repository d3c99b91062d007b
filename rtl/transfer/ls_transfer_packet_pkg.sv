// SPDX-License-Identifier: Apache-2.0
//
// Types of the packets of `transfer` in the pipeline, around the store.

package ls_transfer_packet_pkg;

  import ls_pkg::*;
  import ls_pipeline_pkg::*;
  import ls_transfer_pkg::*;

  localparam int unsigned PayloadWords = PayloadBytesMax / 2;
  // Payload bytes of a native `refer` of one account.
  localparam int unsigned ReferBytes = NativeHeaderBytes + ReferHeadBytes + BalanceItemBytes;
  // Payload bytes of a native `execute` of one operation.
  localparam int unsigned ExecuteBytes = NativeHeaderBytes + ExecuteHeadBytes + OperationBytes;
  // Modes (register transfer_mode).
  localparam logic [1:0] ModeDurable = 2'(TransferDurable);
  localparam logic [1:0] ModeExpress = 2'(TransferExpress);

  // Range of addresses that may issue.
  typedef struct packed {
    logic [127:0] mask;
    logic [127:0] address;
  } range_t;

  // Registers of the service.
  typedef struct packed {
    logic [63:0] lease_until_ns;
    logic [HashKeyBits-1:0] key;
    logic [1:0] mode;
    logic paper_format;
    logic require_signature;
    logic [RegisterTransferSessionsBits-1:0] sessions;
    logic [RegisterTransferIssuerCount-1:0] issuers;
    range_t [RegisterTransferIssuerCount-1:0] issuer;
  } control_t;

  // What the payload rules decide about a frame.
  typedef enum logic [2:0] {
    OutcomeForward = 3'd0,  // not for the service, or not intact; nothing is counted
    OutcomeDrop = 3'd1,
    OutcomeNotLeased = 3'd2,
    OutcomeHost = 3'd3,  // the host answers
    OutcomeRefused = 3'd4,  // a reply with a code that no account decides
    OutcomeStore = 3'd5,  // the store decides
    OutcomeStatus = 3'd6,  // a reply with a status: the session refuses the packet
    OutcomeStored = 3'd7  // the stored reply of the session
  } outcome_e;

  // Decision about a request, and the parts of its reply that the decision gives.
  typedef struct packed {
    outcome_e outcome;
    logic is_execute;  // a request of a session
    code_e code;  // of OutcomeRefused, OutcomeStored, and the code that OutcomeStatus counts
    logic [3:0] status;
    // Requests of sessions: sequence number of the reply, and amount of OutcomeStored. Others: number of the record.
    logic [63:0] session_sequence;
    amount_t amount;
  } about_t;

  // Properties of a frame that only its reply or its drop needs.
  typedef struct packed {
    drop_e reason;
    logic is_native;
    headers_t headers;
    logic [15:0] first;  // first two bytes of the payload
    logic [1:0] filler;  // bytes after a paper packet of 20 bytes
    logic [7:0] trailer;  // byte 21 of the payload or after it
    // Paper: of the words 1 to 7. Native: of the whole payload with the reply bit, without the fields below.
    logic [15:0] kept_sum;
    logic [15:0] operation_sum;  // requests of sessions: sum of code, amount and number as they were sent
  } form_t;

  // Fields of a request of a session that only its record needs.
  typedef struct packed {
    logic [7:0] command;
    logic [31:0] nonce;
    logic [63:0] timestamp;
    logic [127:0] uuid;
  } packet_t;

  // Fields that no decision needs. They have a queue of their own, from the rules about payloads to the reply and the
  // record, so the registers in between do not have them.
  typedef struct packed {
    form_t   form;
    packet_t packet;
  } carried_t;

  // Session slot, with the reply to its last packet.
  typedef struct packed {
    logic claimed;
    logic [15:0] count;  // operations of the last packet
    logic [63:0] token;
    logic [63:0] session_sequence;
    logic [63:0] sum;
    code_e code;  // of the first operation
    amount_t amount;
  } session_t;

  // Order of the host about a session slot.
  typedef struct packed {
    logic [31:0] index;
    logic [31:0] slot;
    logic writes;
    logic writes_claim;
    session_t session;
  } session_order_t;

  // Requests of sessions that are remembered with their replies, and how many of them may be under way. A request whose
  // slot was read while another one of its session was under way finds that one among them: since then, no more than
  // four others (the requests before it that had been read, too) became under way.
`ifdef LS_TRANSFER_SMALL
  localparam int unsigned Recent = 8;
  localparam int unsigned UnderWay = 4;
`else
  localparam int unsigned Recent = 16;
  localparam int unsigned UnderWay = 12;
`endif
  localparam int unsigned RecentBits = $clog2(Recent);

  // What the end of a request's way needs to know about its session.
  typedef struct packed {
    logic has_sum;  // a request of a session, whose checksum is computed
    logic is_counted;  // it was given to the store, and is one of those under way
    logic is_recent;  // repetition of the remembered request `place`
    logic [RecentBits-1:0] place;  // of the request itself, or of the one that it repeats
    logic is_single;  // repetition: the stored packet has one operation
    logic [63:0] sum;  // repetition: the stored checksum
  } replay_t;

  // Request as the payload rules leave it.
  typedef struct packed {
    logic is_session;  // of a session, which decides its outcome
    outcome_e outcome;
    code_e code;
    operation_t operation;
  } request_t;

  // What the decision about a request of a session needs.
  typedef struct packed {
    logic [31:0] slot;
    logic [63:0] token;
    logic [63:0] session_sequence;
  } session_key_t;

  // Request after the sessions have decided about it.
  typedef struct packed {
    about_t about;
    replay_t replay;
    logic needs_store;  // the outcome is OutcomeStore; a register, because the enables of all bits depend on it
    logic [31:0] slot;  // of a request of a session
    operation_t operation;
  } decided_t;

  // Fields of a record that the store does not know.
  typedef struct packed {
    logic [63:0] time_ns;
    logic [31:0] slot;
    logic [7:0] command;
    logic [63:0] session_sequence;
    logic [63:0] sum;
    logic [31:0] nonce;
    logic [63:0] timestamp;
    logic [127:0] uuid;
  } extra_t;

  // Slot of requests without a session.
  localparam logic [31:0] NoSession = '1;
  localparam int unsigned OperationWords = OperationBytes / 8;

  function automatic logic [63:0] be64(input logic [63:0] bytes);
    return {be32(bytes[31:0]), be32(bytes[63:32])};
  endfunction

endpackage
