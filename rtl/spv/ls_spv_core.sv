// SPDX-License-Identifier: Apache-2.0
//
// NIC pipeline with the service `spv`: answers requests from the network out of its table, and passes all other frames
// to the host unchanged and in order.
//
// Interface: AXI-Stream of 512 bits from the network (s_axis), to the network (m_axis_network) and to the host
// (m_axis_host); byte 0 of a frame is in tdata[7:0], and tkeep is all ones except in the last beat. Commands of the
// host come by s_command (spec/rtl.toml). now_ns_i is the clock of the leases; it may be up to a few cycles late.
// A frame of more than FrameBeatsMax beats goes to the host unchanged.
// The input is stopped only when an output does not accept frames: look-ups have a fixed latency, frames wait for their
// decision in a FIFO, and decisions are limited to the space for them.
// Latency: 39 cycles from the last beat in to the first beat out. Throughput: one beat in each cycle.
// Native `roots` is answered without external memory only.
// With MemoryLineBits above 0, the table is in external memory (m_axi, AXI4 of 512 bits), and LineBits is the size of
// its first level. Frames wait in order until their look-up is complete, at most Frames of them; FrameFifoBeats must
// hold their beats. Without it, the core has no queue for this, m_axi is idle, and its inputs have no effect.
// rst_ni must be 0 for at least ten cycles, because the parts of the core get it one after the other.
// Counters: the counters of the XDP program, 64 bits each, in the order of spec/spv.toml and spec/common.toml.

module ls_spv_core
  import ls_pkg::*;
  import ls_pipeline_pkg::*;
  import ls_spv_pkg::*;
#(
    parameter int unsigned LineBits = 10,
    parameter int unsigned BlockBits = 4,
    parameter int unsigned FrameBeatsMax = 24,
    parameter int unsigned FrameFifoBeats = 512,  // at least 4 * FrameBeatsMax
    parameter int unsigned Decisions = 64,  // frames between input and output, more than the latency in cycles
    parameter LineStyle = "block",
    parameter BlockStyle = "block",
    parameter int unsigned MemoryLineBits = 0,  // log2 of the number of lines in external memory; 0: none
    parameter int unsigned MemoryReads = 256,  // sets that are read at the same time, power of two
    parameter int unsigned MemoryWrites = 256,  // lines that are written at the same time, power of two
    parameter logic [63:0] MemoryBase = '0,  // address of the lines, a multiple of their size
    parameter int unsigned Frames = 512  // with external memory: frames between input and output, power of two
) (
    input logic clk_i,
    input logic rst_ni,

    input logic [63:0] now_ns_i,

    input logic s_axis_tvalid,
    output logic s_axis_tready,
    input logic [511:0] s_axis_tdata,
    input logic [63:0] s_axis_tkeep,
    input logic s_axis_tlast,

    output logic m_axis_network_tvalid,
    input logic m_axis_network_tready,
    output logic [511:0] m_axis_network_tdata,
    output logic [63:0] m_axis_network_tkeep,
    output logic m_axis_network_tlast,

    output logic m_axis_host_tvalid,
    input logic m_axis_host_tready,
    output logic [511:0] m_axis_host_tdata,
    output logic [63:0] m_axis_host_tkeep,
    output logic m_axis_host_tlast,

    input logic s_command_tvalid,
    output logic s_command_tready,
    input logic [511:0] s_command_tdata,
    output logic [31:0] barrier_o,

    output logic [SpvCounters-1:0][63:0] counters_o,
    output logic [DropReasons-1:0][63:0] drops_o,

    output logic frame_passed_o,
    output verdict_e passed_verdict_o,

    output logic [63:0] m_axi_awaddr,
    output logic [7:0] m_axi_awlen,
    output logic [2:0] m_axi_awsize,
    output logic [1:0] m_axi_awburst,
    output logic m_axi_awvalid,
    input logic m_axi_awready,
    output logic [511:0] m_axi_wdata,
    output logic [63:0] m_axi_wstrb,
    output logic m_axi_wlast,
    output logic m_axi_wvalid,
    input logic m_axi_wready,
    input logic [1:0] m_axi_bresp,
    input logic m_axi_bvalid,
    output logic m_axi_bready,
    output logic [63:0] m_axi_araddr,
    output logic [7:0] m_axi_arlen,
    output logic [2:0] m_axi_arsize,
    output logic [1:0] m_axi_arburst,
    output logic m_axi_arvalid,
    input logic m_axi_arready,
    input logic [511:0] m_axi_rdata,
    input logic [1:0] m_axi_rresp,
    input logic m_axi_rlast,
    input logic m_axi_rvalid,
    output logic m_axi_rready,

    output logic [MemoryCounters-1:0][63:0] memory_counters_o,
    output logic lines_done_o  // 1: no line is on its way to external memory
);

  localparam bit External = MemoryLineBits != 0;
  localparam int unsigned TableBits = External ? MemoryLineBits : LineBits;
  localparam int unsigned OpenFrames = External ? Frames : Decisions;
  localparam int unsigned RequestCycles = 2;  // of ls_spv_request
  localparam int unsigned LookupCycles = 19;  // of ls_spv_lookup without external memory

  // Resets of the parts, in the order of the frames. Each has a register of its own, because its wires are long. A part
  // begins to work before anything comes from those before it, because ls_input waits until its own reset has ended.
  logic [6:0] rst_nq;
  always_ff @(posedge clk_i) rst_nq <= {rst_nq[5:0], rst_ni};

  // ---- input ----

  beat_t in_beat, frame_beat;
  logic in_valid, begins, frame_valid, frame_ready, window_valid, decision_taken;
  window_t window;

  ls_input #(
      .FrameBeatsMax(FrameBeatsMax),
      .FrameFifoBeats(FrameFifoBeats),
      .Frames(OpenFrames)
  ) u_input (
      .clk_i,
      .rst_ni(rst_nq[0]),
      .s_axis_tvalid,
      .s_axis_tready,
      .s_axis_tdata,
      .s_axis_tkeep,
      .s_axis_tlast,
      .beat_valid_o(in_valid),
      .beat_o(in_beat),
      .begins_o(begins),
      .window_valid_o(window_valid),
      .window_o(window),
      .frame_valid_o(frame_valid),
      .frame_ready_i(frame_ready),
      .frame_o(frame_beat),
      .decision_taken_i(decision_taken)
  );

  // ---- commands ----

  endpoint_t endpoint;
  control_t control;
  logic line_write, block_write;
  logic [TableBits-1:0] line_index;
  logic [31:0] line_generation;
  logic [BlockBits-1:0] line_block, block_index;
  logic line_ready;
  logic [255:0] line_txid;
  block_t written_block;
  // A barrier waits for a frame whose first beat was accepted before it, because items are looked up before the last.
  logic begins_q;
  logic [1:0] has_passed_q;  // a frame has passed; the wires of both may be long
  logic [15:0] accepted_q, passed_q;

  ls_spv_commands #(
      .LineBits (TableBits),
      .BlockBits(BlockBits),
      .External (External)
  ) u_commands (
      .clk_i,
      .rst_ni(rst_nq[1]),
      .s_command_valid_i(s_command_tvalid),
      .s_command_ready_o(s_command_tready),
      .s_command_i(command_t'(s_command_tdata)),
      .accepted_i(accepted_q),
      .passed_i(passed_q),
      .barrier_o,
      .line_ready_i(line_ready),
      .lines_done_i(lines_done_o),
      .endpoint_o(endpoint),
      .control_o(control),
      .line_write_o(line_write),
      .line_index_o(line_index),
      .line_generation_o(line_generation),
      .line_block_o(line_block),
      .line_txid_o(line_txid),
      .block_write_o(block_write),
      .block_index_o(block_index),
      .block_o(written_block)
  );

  // ---- decision ----

  logic datagram_valid, request_valid, looks_up, looked_up_valid, decided_valid, counts;
  datagram_t datagram;
  request_t request, looked_up, answered;
  item_t item, looked_up_item;
  logic [255:0] txid, item_txid, tip_hash;
  logic [31:0] tip_height;
  logic [15:0] tip_sum;
  block_t block;
  logic is_hit, is_open, is_same_epoch, is_roots, is_kept;
  logic [ItemsSumBits-1:0] items_sum;
  decision_t decided;
  drop_e reason;
  spv_counter_e counter;

  // Between the table on this chip and external memory.
  match_t match_first_level, match_whole;
  logic [31:0] match_first;
  logic [255:0] match_txid, first_txid;
  logic first_write, first_clear;
  logic [LineBits-1:0] first_index;
  logic [31:0] first_generation;
  logic [BlockBits-1:0] first_block;

  ls_classify u_classify (
      .clk_i,
      .rst_ni(rst_nq[1]),
      .endpoint_i(endpoint),
      .valid_i(window_valid),
      .window_i(window),
      .valid_o(datagram_valid),
      .datagram_o(datagram)
  );

  if (External) begin : gen_no_items
    beat_t unused_beat;
    logic unused_valid;
    assign unused_beat = in_beat;
    assign unused_valid = in_valid;
    assign item = '0;
    assign item_txid = '0;
  end else begin : gen_items
    ls_spv_items u_items (
        .clk_i,
        .rst_ni(rst_nq[1]),
        .beat_valid_i(in_valid),
        .beat_i(in_beat),
        .item_o(item),
        .txid_o(item_txid)
    );
  end

  ls_spv_request #(
      .Roots(!External)
  ) u_request (
      .clk_i,
      .rst_ni(rst_nq[1]),
      .paper_format_i(control.paper_format),
      .valid_i(datagram_valid),
      .datagram_i(datagram),
      .item_valid_i(item.valid),
      .item_txid_i(item_txid),
      .valid_o(request_valid),
      .request_o(request),
      .looks_up_o(looks_up),
      .txid_o(txid)
  );

  ls_spv_lookup #(
      .LineBits(LineBits),
      .BlockBits(BlockBits),
      .LineStyle(LineStyle),
      .BlockStyle(BlockStyle),
      .External(External)
  ) u_lookup (
      .clk_i,
      .rst_ni(rst_nq[2]),
      .control_i(control),
      .now_ns_i,
      .line_write_i(first_write),
      .line_index_i(first_index),
      .line_generation_i(first_generation),
      .line_block_i(first_block),
      .line_txid_i(first_txid),
      .block_write_i(block_write),
      .block_index_i(block_index),
      .block_i(written_block),
      .valid_i(request_valid),
      .looks_up_i(looks_up),
      .request_i(request),
      .txid_i(txid),
      .valid_o(looked_up_valid),
      .request_o(looked_up),
      .is_roots_o(is_roots),
      .block_o(block),
      .is_hit_o(is_hit),
      .is_open_o(is_open),
      .is_same_epoch_o(is_same_epoch),
      .tip_hash_o(tip_hash),
      .tip_height_o(tip_height),
      .tip_sum_o(tip_sum),
      .line_clear_i(first_clear),
      .match_o(match_first_level),
      .match_first_o(match_first),
      .match_txid_o(match_txid),
      .match_i(match_whole)
  );

  // ---- external memory ----

  if (External) begin : gen_memory
    ls_spv_memory #(
        .LineBits(MemoryLineBits),
        .FirstLineBits(LineBits),
        .BlockBits(BlockBits),
        .Frames(Frames),
        .Decisions(Decisions),
        .Reads(MemoryReads),
        .Writes(MemoryWrites),
        .Base(MemoryBase)
    ) u_memory (
        .clk_i,
        .rst_ni(rst_nq[2]),
        .control_i(control),
        .now_ns_i,
        .match_i(match_first_level),
        .match_first_i(match_first),
        .match_txid_i(match_txid),
        .match_o(match_whole),
        .decision_taken_i(decision_taken),
        .line_write_i(line_write),
        .line_index_i(line_index),
        .line_generation_i(line_generation),
        .line_block_i(line_block),
        .line_txid_i(line_txid),
        .line_ready_o(line_ready),
        .lines_done_o,
        .first_write_o(first_write),
        .first_clear_o(first_clear),
        .first_index_o(first_index),
        .first_generation_o(first_generation),
        .first_block_o(first_block),
        .first_txid_o(first_txid),
        .m_axi_awaddr,
        .m_axi_awvalid,
        .m_axi_awready,
        .m_axi_wdata,
        .m_axi_wvalid,
        .m_axi_wready,
        .m_axi_bresp,
        .m_axi_bvalid,
        .m_axi_bready,
        .m_axi_araddr,
        .m_axi_arlen,
        .m_axi_arvalid,
        .m_axi_arready,
        .m_axi_rdata,
        .m_axi_rresp,
        .m_axi_rlast,
        .m_axi_rvalid,
        .m_axi_rready,
        .counters_o(memory_counters_o)
    );
  end else begin : gen_no_memory
    assign match_whole = '0;
    assign line_ready = 1'b1;
    assign lines_done_o = 1'b1;
    assign first_write = line_write;
    assign first_clear = 1'b0;
    assign first_index = line_index;
    assign first_generation = line_generation;
    assign first_block = line_block;
    assign first_txid = line_txid;
    assign m_axi_awaddr = '0;
    assign m_axi_awvalid = 1'b0;
    assign m_axi_wdata = '0;
    assign m_axi_wvalid = 1'b0;
    assign m_axi_bready = 1'b0;
    assign m_axi_araddr = '0;
    assign m_axi_arlen = '0;
    assign m_axi_arvalid = 1'b0;
    assign m_axi_rready = 1'b0;
    assign memory_counters_o = '0;
  end

  // Lines of 64 bytes, in bursts of consecutive addresses.
  assign m_axi_awlen = '0;
  assign m_axi_awsize = 3'd6;
  assign m_axi_awburst = 2'd1;
  assign m_axi_wstrb = '1;
  assign m_axi_wlast = 1'b1;
  assign m_axi_arsize = 3'd6;
  assign m_axi_arburst = 2'd1;

  ls_spv_reply u_reply (
      .clk_i,
      .rst_ni(rst_nq[3]),
      .valid_i(looked_up_valid),
      .request_i(answered),
      .block_i(block),
      .is_roots_i(!External && is_roots),
      .has_item_i(looked_up_item.valid),
      .items_sum_i(items_sum),
      .tip_hash_i(tip_hash),
      .tip_height_i(tip_height),
      .tip_sum_i(tip_sum),
      .valid_o(decided_valid),
      .decision_o(decided),
      .reason_o(reason),
      .counts_o(counts),
      .counter_o(counter)
  );

  // ---- items of native `roots` ----

  patch_t patch;
  logic patch_valid, patch_ready;

  if (External) begin : gen_no_roots
    logic unused_patch;
    assign unused_patch = patch_ready;
    assign looked_up_item = '0;
    assign answered = looked_up;
    assign is_kept = 1'b0;
    assign items_sum = '0;
    assign patch_valid = 1'b0;
    assign patch = '0;
  end else begin : gen_roots
    ls_delay #(
        .T(item_t),
        .Cycles(RequestCycles + LookupCycles)
    ) u_item_delay (
        .clk_i,
        .valid_i(1'b1),
        .data_i(item),
        .data_o(looked_up_item)
    );

    ls_spv_roots u_roots (
        .clk_i,
        .epoch_i(control.epoch[7:0]),
        .item_i(looked_up_item),
        .root_sum_i(block.root_sum),
        .hash_sum_i(block.hash_sum),
        .is_hit_i(is_hit),
        .is_open_i(is_open),
        .is_same_epoch_i(is_same_epoch),
        .valid_i(looked_up_valid),
        .request_i(looked_up),
        .is_roots_i(is_roots),
        .request_o(answered),
        .is_kept_o(is_kept),
        .items_sum_o(items_sum)
    );

    logic is_kept_q;  // one cycle later, before the first item of the next frame can be there
    always_ff @(posedge clk_i) is_kept_q <= rst_nq[3] && is_kept;

    ls_spv_patch #(
        .Depth(FrameFifoBeats)
    ) u_patch (
        .clk_i,
        .rst_ni(rst_nq[3]),
        .item_i(looked_up_item),
        .block_i(block),
        .keep_i(is_kept_q),
        .patch_valid_o(patch_valid),
        .patch_ready_i(patch_ready),
        .patch_o(patch)
    );
  end

  // ---- output ----

  ls_output #(
      .Decisions(Decisions)
  ) u_output (
      .clk_i,
      .rst_ni(rst_nq[4]),
      .decision_valid_i(decided_valid),
      .decision_i(decided),
      .decision_taken_o(decision_taken),
      .frame_valid_i(frame_valid),
      .frame_ready_o(frame_ready),
      .frame_i(frame_beat),
      .patch_valid_i(patch_valid),
      .patch_ready_o(patch_ready),
      .patch_i(patch),
      .m_axis_network_tvalid,
      .m_axis_network_tready,
      .m_axis_network_tdata,
      .m_axis_network_tkeep,
      .m_axis_network_tlast,
      .m_axis_host_tvalid,
      .m_axis_host_tready,
      .m_axis_host_tdata,
      .m_axis_host_tkeep,
      .m_axis_host_tlast,
      .frame_passed_o,
      .passed_verdict_o
  );

  // ---- counters ----

  // What the counters count, one and two cycles after the decision: the choice of a counter does not come before its
  // addition, and the counter may be far away.
  logic [SpvCounters-1:0] chosen_counts_q, counts_q;
  logic [DropReasons-1:0] chosen_drops_q, drops_q;

  always_ff @(posedge clk_i) begin
    // This reset ends before the first frame comes in.
    if (!rst_nq[1]) begin
      accepted_q <= '0;
      passed_q <= '0;
    end else begin
      accepted_q <= accepted_q + 16'(begins_q);
      passed_q <= passed_q + 16'(has_passed_q[1]);
    end
    if (!rst_nq[5]) begin
      counters_o <= '0;
    end else begin
      for (int unsigned i = 0; i < SpvCounters; i++) counters_o[i] <= counters_o[i] + 64'(counts_q[i]);
    end
    if (!rst_nq[6]) drops_o <= '0;
    else for (int unsigned i = 0; i < DropReasons; i++) drops_o[i] <= drops_o[i] + 64'(drops_q[i]);
  end

  always_ff @(posedge clk_i) begin
    begins_q <= begins;
    has_passed_q <= {has_passed_q[0], frame_passed_o};
    counts_q <= chosen_counts_q;
    drops_q  <= chosen_drops_q;
    for (int unsigned i = 0; i < SpvCounters; i++) begin
      chosen_counts_q[i] <= rst_nq[5] && decided_valid && counts && counter == spv_counter_e'(i);
    end
    for (int unsigned i = 0; i < DropReasons; i++) begin
      chosen_drops_q[i] <= rst_nq[5] && decided_valid && decided.verdict == VerdictDrop && reason == drop_e'(i);
    end
  end

endmodule
