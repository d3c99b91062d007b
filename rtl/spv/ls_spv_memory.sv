// SPDX-License-Identifier: Apache-2.0
//
// Second level of the table of `spv`: external memory, which has all lines, behind the first level in ls_spv_lookup,
// which has copies of some. A request whose TXID the first level lacks reads its set from memory; a line that is found
// there is promoted: it replaces the first-level line whose number has the same low bits. A write of a line goes to
// memory, and then empties the first level's lines around it.
//
// Interface: match_i comes from the comparison in ls_spv_lookup and takes any number of cycles to match_o, in order.
// There is no back-pressure to the first level: the core has at most Frames requests on the way, and there is space for
// all of them. match_o waits while Decisions requests have left and have no taken decision (decision_taken_i).
// Lease and epoch are checked again when a request leaves, so an answer that took long is as new as a fast one.
// Latency: from match_i to match_o five cycles without a read; with a read, 18 more than from the address on the
// address channel to the last beat of the data. Throughput: one request in each cycle.
// A reset must not happen while reads or writes are in flight, or it must reset the memory's ports too.

module ls_spv_memory
  import ls_pkg::*;
  import ls_spv_pkg::*;
#(
    parameter int unsigned LineBits = 22,  // log2 of the number of lines in memory
    parameter int unsigned FirstLineBits = 10,  // log2 of the number of lines in the first level
    parameter int unsigned BlockBits = 4,
    parameter int unsigned Frames = 512,  // power of two
    parameter int unsigned Decisions = 64,
    parameter int unsigned Reads = 256,  // reads in flight, power of two
    parameter int unsigned Writes = 256,  // lines that are not complete, power of two
    parameter logic [63:0] Base = '0
) (
    input logic clk_i,
    input logic rst_ni,

    input control_t control_i,
    input logic [63:0] now_ns_i,

    input match_t match_i,
    input logic [31:0] match_first_i,  // first line of the set
    input logic [255:0] match_txid_i,
    output match_t match_o,
    input logic decision_taken_i,

    input logic line_write_i,
    input logic [LineBits-1:0] line_index_i,
    input logic [31:0] line_generation_i,
    input logic [BlockBits-1:0] line_block_i,
    input logic [255:0] line_txid_i,
    output logic line_ready_o,
    output logic lines_done_o,

    output logic first_write_o,
    output logic first_clear_o,
    output logic [FirstLineBits-1:0] first_index_o,
    output logic [31:0] first_generation_o,
    output logic [BlockBits-1:0] first_block_o,
    output logic [255:0] first_txid_o,

    output logic [63:0] m_axi_awaddr,
    output logic m_axi_awvalid,
    input logic m_axi_awready,
    output logic [511:0] m_axi_wdata,
    output logic m_axi_wvalid,
    input logic m_axi_wready,
    input logic [1:0] m_axi_bresp,
    input logic m_axi_bvalid,
    output logic m_axi_bready,
    output logic [63:0] m_axi_araddr,
    output logic [7:0] m_axi_arlen,
    output logic m_axi_arvalid,
    input logic m_axi_arready,
    input logic [511:0] m_axi_rdata,
    input logic [1:0] m_axi_rresp,
    input logic m_axi_rlast,
    input logic m_axi_rvalid,
    output logic m_axi_rready,

    output logic [MemoryCounters-1:0][63:0] counters_o
);

  localparam int unsigned LeftBits = $clog2(Decisions) + 1;

  // ---- requests in order ----

  typedef struct packed {
    logic reads;
    logic is_open;
    logic [63:0] epoch;  // whole, because the time until the result has no bound
    request_t request;
    logic is_found;
    logic [31:0] generation;
    logic [31:0] slot;
  } pending_t;

  pending_t pending_in, pending;
  logic is_open, reads, pending_ready, pending_valid, pending_taken, fault;

  assign is_open = match_i.is_open && match_i.epoch == control_i.epoch[7:0] && !fault;
  assign reads = match_i.valid && match_i.request.outcome == OutcomeHit && is_open && !match_i.is_found;

  always_comb begin
    pending_in.reads = reads;
    pending_in.is_open = is_open;
    pending_in.epoch = control_i.epoch;
    pending_in.request = match_i.request;
    pending_in.is_found = match_i.is_found;
    pending_in.generation = match_i.generation;
    pending_in.slot = match_i.slot;
  end

  ls_ram_fifo #(
      .T(pending_t),
      .Depth(Frames)
  ) u_pending (
      .clk_i,
      .rst_ni,
      .valid_i(match_i.valid),
      .ready_o(pending_ready),
      .data_i (pending_in),
      .valid_o(pending_valid),
      .ready_i(pending_taken),
      .data_o (pending)
  );

  // ---- reads ----

  logic result_valid, result_found, found, damaged;
  logic [31:0] result_generation, result_slot, found_generation, found_slot;
  logic [LineBits-1:0] found_line;
  logic [255:0] found_txid;
  logic [15:0] issued, finished;

  ls_spv_memory_read #(
      .LineBits(LineBits),
      .Requests(Frames),
      .Reads(Reads),
      .Base(Base)
  ) u_read (
      .clk_i,
      .rst_ni,
      .ways_i(control_i.ways),
      .request_valid_i(reads),
      .request_line_i(match_first_i[LineBits-1:0]),
      .request_txid_i(match_txid_i),
      .result_valid_o(result_valid),
      .result_ready_i(pending_taken && pending.reads),
      .result_found_o(result_found),
      .result_generation_o(result_generation),
      .result_slot_o(result_slot),
      .found_o(found),
      .found_line_o(found_line),
      .found_generation_o(found_generation),
      .found_slot_o(found_slot),
      .found_txid_o(found_txid),
      .damaged_o(damaged),
      .issued_o(issued),
      .finished_o(finished),
      .m_axi_araddr,
      .m_axi_arlen,
      .m_axi_arvalid,
      .m_axi_arready,
      .m_axi_rdata,
      .m_axi_rresp,
      .m_axi_rlast,
      .m_axi_rvalid,
      .m_axi_rready
  );

  // ---- requests with their results ----

  logic [LeftBits-1:0] left_q;  // requests that left and whose decision was not taken

  assign pending_taken = pending_valid && (!pending.reads || result_valid) && left_q < LeftBits'(Decisions);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) left_q <= '0;
    else left_q <= left_q + LeftBits'(pending_taken) - LeftBits'(decision_taken_i);
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) match_o.valid <= 1'b0;
    else match_o.valid <= pending_taken;
    match_o.is_open <= pending.is_open && pending.epoch == control_i.epoch &&
                       now_ns_i < control_i.lease_until_ns && !fault;
    match_o.epoch <= control_i.epoch[7:0];
    match_o.request <= pending.request;
    match_o.is_found <= pending.is_found || (pending.reads && result_found);
    match_o.generation <= pending.is_found ? pending.generation : result_generation;
    match_o.slot <= (pending.is_found ? pending.slot : result_slot) & control_i.block_mask;
  end

  // ---- writes ----

  logic clear;
  logic [LineBits-1:0] clear_line;

  ls_spv_memory_write #(
      .LineBits(LineBits),
      .Writes(Writes),
      .Base(Base)
  ) u_write (
      .clk_i,
      .rst_ni,
      .line_write_i,
      .line_index_i,
      .line_generation_i,
      .line_slot_i(32'(line_block_i)),
      .line_txid_i,
      .line_ready_o,
      .lines_done_o,
      .fault_o(fault),
      .issued_i(issued),
      .finished_i(finished),
      .clear_o(clear),
      .clear_line_o(clear_line),
      .m_axi_awaddr,
      .m_axi_awvalid,
      .m_axi_awready,
      .m_axi_wdata,
      .m_axi_wvalid,
      .m_axi_wready,
      .m_axi_bresp,
      .m_axi_bvalid,
      .m_axi_bready
  );

  // ---- write port of the first level: a promotion that meets a removal is left out ----

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      first_write_o <= 1'b0;
      first_clear_o <= 1'b0;
    end else begin
      first_write_o <= found && !clear;
      first_clear_o <= clear;
    end
  end

  always_ff @(posedge clk_i) begin
    first_index_o <= clear ? clear_line[FirstLineBits-1:0] : found_line[FirstLineBits-1:0];
    first_generation_o <= clear ? '0 : found_generation;
    first_block_o <= found_slot[BlockBits-1:0];
    first_txid_o <= found_txid;
  end

  // ---- counters ----

  logic [MemoryCounters-1:0] counts;
  logic fault_q;

  always_comb begin
    counts[MemoryCounterReads] = reads;
    counts[MemoryCounterFound] = found;
    counts[MemoryCounterDamaged] = damaged;
    counts[MemoryCounterWrites] = line_write_i;
    counts[MemoryCounterFaults] = fault && !fault_q;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      counters_o <= '0;
      fault_q <= 1'b0;
    end else begin
      fault_q <= fault;
      for (int unsigned i = 0; i < MemoryCounters; i++) counters_o[i] <= counters_o[i] + 64'(counts[i]);
    end
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk_i)
    if (rst_ni) assert (!match_i.valid || pending_ready) else $error("a request was lost");
`endif

endmodule
