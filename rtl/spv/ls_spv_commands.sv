// SPDX-License-Identifier: Apache-2.0
//
// Executes the commands of the host (spec/rtl.toml): writes of the table and of the registers, and barriers.
//
// Interface: s_command takes one command of 64 bytes in each cycle; it waits only for an earlier barrier. Commands take
// effect in order, three cycles after they were taken in: a command is registered with its kind, then with one bit for
// each thing that it may change, and these bits alone enable the registers, which are all over the chip.
// With External, writes of lines take longer: line_ready_i is 1 while four more can be taken in, and lines_done_i when
// all that line_write_o gave out are complete. Every other command waits for the lines before it.
// barrier_o is the index of the last completed barrier. A barrier is complete when all frames that were accepted before
// it have been passed on; accepted_i and passed_i count them.

module ls_spv_commands
  import ls_pkg::*;
  import ls_pipeline_pkg::*;
  import ls_spv_pkg::*;
#(
    parameter int unsigned LineBits  = 10,
    parameter int unsigned BlockBits = 4,
    parameter bit External = 1'b0
) (
    input logic clk_i,
    input logic rst_ni,

    input logic s_command_valid_i,
    output logic s_command_ready_o,
    input command_t s_command_i,

    input logic [15:0] accepted_i,
    input logic [15:0] passed_i,
    output logic [31:0] barrier_o,

    input logic line_ready_i,
    input logic lines_done_i,

    output endpoint_t endpoint_o,
    output control_t  control_o,

    output logic line_write_o,
    output logic [LineBits-1:0] line_index_o,
    output logic [31:0] line_generation_o,
    output logic [BlockBits-1:0] line_block_o,
    output logic [255:0] line_txid_o,

    output logic block_write_o,
    output logic [BlockBits-1:0] block_index_o,
    output block_t block_o
);

  typedef struct packed {
    logic is_line;
    logic is_block_hash;
    logic is_block;
    logic is_tip;
    logic is_register;  // and the high bits of the index are those of a register
    logic is_barrier;
  } kind_t;

  // What the command changes; at most one bit is 1.
  typedef struct packed {
    logic line;
    logic block_hash;
    logic block;
    logic tip;
    logic barrier;
    logic lease_until_ns;
    logic epoch;
    logic key;
    logic set_bits;
    logic ways;
    logic block_mask;
    logic paper_index;
    logic paper_format;
  } select_t;

  logic runs_q, valid_q, barrier_pending;
  command_t command_q, selected_q;
  kind_t kind_q;
  select_t select, select_q;
  logic [31:0] staged_height_q;
  logic [15:0] staged_sum_q;
  logic [255:0] staged_hash_q;

  // A barrier may still be in one of the two stages, so a command after it waits until it is pending or complete.
  logic is_in_turn;
  assign s_command_ready_o = runs_q && is_in_turn && !barrier_pending && !(valid_q && kind_q.is_barrier) &&
                             !select_q.barrier;

  if (External) begin : gen_turn
    logic is_line_on_way;
    assign is_line_on_way = (valid_q && kind_q.is_line) || select_q.line || line_write_o;
    assign is_in_turn = s_command_i.op == CommandLine ? line_ready_i : lines_done_i && !is_line_on_way;
  end else begin : gen_no_turn
    assign is_in_turn = 1'b1;
  end

  always_ff @(posedge clk_i) begin
    runs_q <= rst_ni;  // during the reset, no command is taken
    if (!rst_ni) valid_q <= 1'b0;
    else valid_q <= s_command_valid_i && s_command_ready_o;
  end

  always_ff @(posedge clk_i) begin
    if (!SkipsIdle || s_command_valid_i) begin
      command_q <= s_command_i;
      kind_q.is_line <= s_command_i.op == CommandLine;
      kind_q.is_block_hash <= s_command_i.op == CommandBlockHash;
      kind_q.is_block <= s_command_i.op == CommandBlock;
      kind_q.is_tip <= s_command_i.op == CommandTip;
      kind_q.is_register <= s_command_i.op == CommandRegister && s_command_i.index[31:RegisterIndexBits] == '0;
      kind_q.is_barrier <= s_command_i.op == CommandBarrier;
    end
  end

  // ---- selection ----

  logic is_register;
  logic [RegisterIndexBits-1:0] index;
  assign index = command_q.index[RegisterIndexBits-1:0];
  assign is_register = valid_q && kind_q.is_register;

  always_comb begin
    select.line = valid_q && kind_q.is_line;
    select.block_hash = valid_q && kind_q.is_block_hash;
    select.block = valid_q && kind_q.is_block;
    select.tip = valid_q && kind_q.is_tip;
    select.barrier = valid_q && kind_q.is_barrier;
    select.lease_until_ns = is_register && index == RegisterIndexBits'(RegisterSpvLeaseUntilNs);
    select.epoch = is_register && index == RegisterIndexBits'(RegisterSpvEpoch);
    select.key = is_register && index == RegisterIndexBits'(RegisterSpvKey);
    select.set_bits = is_register && index == RegisterIndexBits'(RegisterSpvSetBits);
    select.ways = is_register && index == RegisterIndexBits'(RegisterSpvWays);
    select.block_mask = is_register && index == RegisterIndexBits'(RegisterSpvBlockMask);
    select.paper_index = is_register && index == RegisterIndexBits'(RegisterSpvPaperIndex);
    select.paper_format = is_register && index == RegisterIndexBits'(RegisterSpvPaperFormat);
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) select_q <= '0;
    else select_q <= select;
  end

  always_ff @(posedge clk_i) if (!SkipsIdle || valid_q) selected_q <= command_q;

  // ---- table ----

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      line_write_o  <= 1'b0;
      block_write_o <= 1'b0;
    end else begin
      line_write_o  <= select_q.line;
      block_write_o <= select_q.block;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!SkipsIdle || select_q.line) begin
      line_index_o <= selected_q.index[LineBits-1:0];
      line_generation_o <= selected_q.first;
      line_block_o <= selected_q.second[BlockBits-1:0];
      line_txid_o <= selected_q.value;
    end
    if (!SkipsIdle || select_q.block) begin
      block_index_o <= selected_q.index[BlockBits-1:0];
      block_o.generation <= selected_q.first;
      block_o.root_sum <= selected_q.second[15:0];
      block_o.root <= selected_q.value;
      block_o.height <= staged_height_q;
      block_o.hash_sum <= staged_sum_q;
      block_o.hash <= staged_hash_q;
    end
    if (select_q.block_hash) begin
      staged_height_q <= selected_q.first;
      staged_sum_q <= selected_q.second[15:0];
      staged_hash_q <= selected_q.value;
    end
    if (select_q.tip) begin
      control_o.tip_height <= selected_q.first;
      control_o.tip_sum <= selected_q.second[15:0];
      control_o.tip_hash <= selected_q.value;
    end
  end

  // ---- registers ----

  logic [255:0] value;
  assign value = selected_q.value;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      // Without a lease, everything is forwarded.
      control_o.lease_until_ns <= '0;
      control_o.epoch <= 64'd1;
    end else begin
      if (select_q.lease_until_ns) control_o.lease_until_ns <= value[RegisterSpvLeaseUntilNsBits-1:0];
      if (select_q.epoch) control_o.epoch <= value[RegisterSpvEpochBits-1:0];
    end
  end

  always_ff @(posedge clk_i) begin
    if (select_q.key) control_o.key <= value[RegisterSpvKeyBits-1:0];
    if (select_q.set_bits) control_o.set_bits <= value[RegisterSpvSetBitsBits-1:0];
    if (select_q.ways) control_o.ways <= value[RegisterSpvWaysBits-1:0];
    if (select_q.block_mask) control_o.block_mask <= value[RegisterSpvBlockMaskBits-1:0];
    if (select_q.paper_index) control_o.paper_index <= value[0];
    if (select_q.paper_format) control_o.paper_format <= value[0];
  end

  ls_endpoint #(
      .PortRegister(RegisterSpvPort)
  ) u_endpoint (
      .clk_i,
      .rst_ni,
      .select_i(is_register),
      .index_i(index),
      .value_i(value[RegisterV6Bits-1:0]),
      .endpoint_o
  );

  // ---- barrier ----

  ls_barrier u_barrier (
      .clk_i,
      .rst_ni,
      .set_i(select_q.barrier),
      .index_i(selected_q.index),
      .accepted_i,
      .passed_i,
      .pending_o(barrier_pending),
      .barrier_o
  );

endmodule
