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
    OutcomeStore = 3'd5  // the store decides
  } outcome_e;

  // Properties of a request that its decision needs.
  typedef struct packed {
    outcome_e outcome;
    drop_e reason;
    logic is_native;
    code_e code;  // of OutcomeRefused
    headers_t headers;
    logic [15:0] first;  // first two bytes of the payload
    logic [1:0] filler;  // bytes after a paper packet of 20 bytes
    logic [7:0] trailer;  // byte 21 of the payload or after it
    // Paper: of the words 1 to 7. Native: of the whole payload with the reply bit.
    logic [15:0] kept_sum;
  } context_t;

  // Request on its way to the store.
  typedef struct packed {
    context_t about;
    operation_t operation;
  } request_t;

  // Fields of a record that the store does not know.
  typedef struct packed {
    logic [63:0] time_ns;
  } extra_t;

endpackage
