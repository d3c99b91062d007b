// SPDX-License-Identifier: Apache-2.0
//
// Types of the service `spv`. Hashes are in wire byte order with the first byte in bits 7:0, so that the low 64 bits
// of a TXID are its first word in xdp/spv_store.h.

package ls_spv_pkg;

  import ls_pkg::*;
  import ls_pipeline_pkg::*;

  localparam int unsigned Ways = 4;
  // Payload bytes of native `root`.
  localparam int unsigned RootBytes = NativeHeaderBytes + RootReplyBytes;

  // State of the whole table.
  typedef struct packed {
    logic [63:0] lease_until_ns;
    logic [63:0] epoch;
    logic [191:0] key;
    logic [4:0] set_bits;
    logic [2:0] ways;
    logic [31:0] block_mask;
    logic paper_index;
    logic paper_format;
    logic [255:0] tip_hash;
    logic [31:0] tip_height;
    logic [15:0] tip_sum;
  } control_t;

  // Block that lines refer to.
  typedef struct packed {
    logic [31:0] generation;
    logic [31:0] height;
    logic [255:0] root;
    logic [15:0] root_sum;
    logic [255:0] hash;
    logic [15:0] hash_sum;  // of hash and height
  } block_t;

  // Outcome of a request: final, or the result of a look-up.
  typedef enum logic [2:0] {
    OutcomeForward = 3'd0,  // a frame that is not for the service; nothing is counted
    OutcomeDrop = 3'd1,
    OutcomeHost = 3'd2,  // a native request that only the host answers
    OutcomeNotLeased = 3'd3,
    OutcomeMiss = 3'd4,
    OutcomeHit = 3'd5
  } outcome_e;

  // Request as it travels through the look-up.
  typedef struct packed {
    outcome_e outcome;  // OutcomeHit: to be looked up
    drop_e reason;
    logic is_native;
    headers_t headers;
  } request_t;

endpackage
