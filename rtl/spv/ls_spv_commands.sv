// SPDX-License-Identifier: Apache-2.0
//
// Executes the commands of the host (spec/rtl.toml): writes of the table and of the registers, and barriers.
//
// Interface: s_command takes one command of 64 bytes in each cycle; it waits only for an earlier barrier. Commands take
// effect in order, two cycles after they were taken in.
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

  logic valid_q, barrier_pending;
  command_t command_q;
  logic [31:0] staged_height_q;
  logic [15:0] staged_sum_q;
  logic [255:0] staged_hash_q;

  // A barrier may still be in command_q, so a command after it waits until it is pending or complete.
  logic is_in_turn;
  assign s_command_ready_o = is_in_turn && !barrier_pending && !(valid_q && command_q.op == CommandBarrier);

  if (External) begin : gen_turn
    logic is_line_on_way;
    assign is_line_on_way = (valid_q && command_q.op == CommandLine) || line_write_o;
    assign is_in_turn = s_command_i.op == CommandLine ? line_ready_i : lines_done_i && !is_line_on_way;
  end else begin : gen_no_turn
    assign is_in_turn = 1'b1;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) valid_q <= 1'b0;
    else valid_q <= s_command_valid_i && s_command_ready_o;
  end

  always_ff @(posedge clk_i) if (!SkipsIdle || s_command_valid_i) command_q <= s_command_i;

  // ---- table ----

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      line_write_o  <= 1'b0;
      block_write_o <= 1'b0;
    end else begin
      line_write_o  <= valid_q && command_q.op == CommandLine;
      block_write_o <= valid_q && command_q.op == CommandBlock;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!SkipsIdle || valid_q) begin
      line_index_o <= command_q.index[LineBits-1:0];
      line_generation_o <= command_q.first;
      line_block_o <= command_q.second[BlockBits-1:0];
      line_txid_o <= command_q.value;
      block_index_o <= command_q.index[BlockBits-1:0];
      block_o.generation <= command_q.first;
      block_o.root_sum <= command_q.second[15:0];
      block_o.root <= command_q.value;
      block_o.height <= staged_height_q;
      block_o.hash_sum <= staged_sum_q;
      block_o.hash <= staged_hash_q;
    end
    if (valid_q && command_q.op == CommandBlockHash) begin
      staged_height_q <= command_q.first;
      staged_sum_q <= command_q.second[15:0];
      staged_hash_q <= command_q.value;
    end
    if (valid_q && command_q.op == CommandTip) begin
      control_o.tip_height <= command_q.first;
      control_o.tip_sum <= command_q.second[15:0];
      control_o.tip_hash <= command_q.value;
    end
  end

  // ---- registers ----

  logic is_register;
  logic [255:0] value;
  assign is_register = valid_q && command_q.op == CommandRegister;
  assign value = command_q.value;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      // Without a lease, everything is forwarded.
      control_o.lease_until_ns <= '0;
      control_o.epoch <= 64'd1;
    end else if (is_register) begin
      case (command_q.index)
        RegisterSpvLeaseUntilNs: control_o.lease_until_ns <= value[RegisterSpvLeaseUntilNsBits-1:0];
        RegisterSpvEpoch: control_o.epoch <= value[RegisterSpvEpochBits-1:0];
        default: ;
      endcase
    end
  end

  always_ff @(posedge clk_i) begin
    if (is_register) begin
      case (command_q.index)
        RegisterSpvKey: control_o.key <= value[RegisterSpvKeyBits-1:0];
        RegisterSpvSetBits: control_o.set_bits <= value[RegisterSpvSetBitsBits-1:0];
        RegisterSpvWays: control_o.ways <= value[RegisterSpvWaysBits-1:0];
        RegisterSpvBlockMask: control_o.block_mask <= value[RegisterSpvBlockMaskBits-1:0];
        RegisterSpvPaperIndex: control_o.paper_index <= value[0];
        RegisterSpvPaperFormat: control_o.paper_format <= value[0];
        default: ;
      endcase
    end
  end

  ls_endpoint #(
      .PortRegister(RegisterSpvPort)
  ) u_endpoint (
      .clk_i,
      .rst_ni,
      .write_i(is_register),
      .index_i(command_q.index),
      .value_i(value[RegisterV6Bits-1:0]),
      .endpoint_o
  );

  // ---- barrier ----

  ls_barrier u_barrier (
      .clk_i,
      .rst_ni,
      .set_i(valid_q && command_q.op == CommandBarrier),
      .index_i(command_q.index),
      .accepted_i,
      .passed_i,
      .pending_o(barrier_pending),
      .barrier_o
  );

endmodule
