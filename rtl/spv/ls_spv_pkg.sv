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
  // Bits of the sum of the answers of all items but the last of native `roots`: for each item, two sums of 16 bits and
  // 1.
  localparam int unsigned ItemsSumBits = $clog2((SpvRootsMax - 1) * (2 * 65535 + 1) + 1);

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
    OutcomeHit = 3'd5,
    OutcomeRoots = 3'd6  // native `roots`; the look-ups of its items decide
  } outcome_e;

  // Request as it travels through the look-up.
  typedef struct packed {
    outcome_e outcome;  // OutcomeHit: to be looked up
    drop_e reason;
    logic is_native;
    headers_t headers;
  } request_t;

  // Item of a frame that may be a native `roots` request.
  typedef struct packed {
    logic valid;
    logic is_first;  // of the frame
    logic is_last;  // of the frame, as the count in its head says
    logic is_v6;
    logic is_vlan;
    logic is_clean;  // all bytes after the TXID are zero
  } item_t;

  // Request with the outcome of the comparison of its TXID with lines of its set.
  typedef struct packed {
    logic valid;
    logic is_open;  // lease and epoch allowed an answer
    logic [7:0] epoch;  // low bits
    request_t request;
    logic is_found;
    logic [31:0] generation;
    logic [31:0] slot;  // of the block
  } match_t;

  // Line in external memory, 64 bytes: the TXID in bytes 0 to 23 and 32 to 39, generation and block slot in bytes 40 to
  // 47, and zeros in bytes 48 to 55. Each half ends with the number of the write, so that a line whose halves are of
  // two writes is recognized.
  typedef struct packed {
    logic [63:0] high_stamp;
    logic [63:0] reserved;
    logic [31:0] slot;
    logic [31:0] generation;
    logic [63:0] high_txid;
    logic [63:0] low_stamp;
    logic [191:0] low_txid;
  } memory_line_t;

  localparam int unsigned MemoryCounters = 5;
  // Counters of the external memory.
  typedef enum logic [2:0] {
    MemoryCounterReads   = 3'd0,  // sets read
    MemoryCounterFound   = 3'd1,  // sets that had the TXID
    MemoryCounterDamaged = 3'd2,  // sets with a read error or with a line of two writes; they count as not found
    MemoryCounterWrites  = 3'd3,  // lines written
    MemoryCounterFaults  = 3'd4   // writes that failed; after the first, nothing is answered until the reset
  } memory_counter_e;

endpackage
