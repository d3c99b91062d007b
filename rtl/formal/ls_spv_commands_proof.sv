// SPDX-License-Identifier: Apache-2.0
//
// Proof of ls_spv_commands, at full width, with a table of 8 lines and 2 blocks:
// - Each command that was taken takes effect as a whole three cycles later, in order, and changes nothing else: a line,
//   a block with the last block hash before it, the tip, or one register. Without a command nothing changes.
// - After a reset there is no port, no answered address, no lease, and the epoch is odd: nothing is answered.
// - With External, a line is taken only while the memory takes lines; every other command only when all lines before it
//   are complete.
// ls_spv_barrier_proof is about barriers.

module ls_spv_commands_proof
  import ls_pkg::*;
  import ls_pipeline_pkg::*;
  import ls_spv_pkg::*;
#(
    parameter int unsigned LineBits  = 3,
    parameter int unsigned BlockBits = 1,
    parameter bit Registers = 1'b0,  // 0: the table and the tip; 1: the registers
    parameter bit External = 1'b0  // lines are written to external memory
) (
    input logic clk_i,
    input logic rst_ni,

    input logic valid_i,
    input command_t command_i,
    input logic [15:0] accepted_i,
    input logic [15:0] passed_i,
    input logic line_ready_i,
    input logic lines_done_i
);

  logic ready, line_write, block_write;
  logic [31:0] barrier, line_generation;
  endpoint_t endpoint, endpoint_q;
  control_t control, control_q;
  logic [LineBits-1:0] line_index;
  logic [BlockBits-1:0] line_block, block_index;
  logic [255:0] line_txid;
  block_t block;

  ls_spv_commands #(
      .LineBits (LineBits),
      .BlockBits(BlockBits),
      .External (External)
  ) u_dut (
      .clk_i,
      .rst_ni,
      .s_command_valid_i(valid_i),
      .s_command_ready_o(ready),
      .s_command_i(command_i),
      .accepted_i,
      .passed_i,
      .barrier_o(barrier),
      .line_ready_i,
      .lines_done_i,
      .endpoint_o(endpoint),
      .control_o(control),
      .line_write_o(line_write),
      .line_index_o(line_index),
      .line_generation_o(line_generation),
      .line_block_o(line_block),
      .line_txid_o(line_txid),
      .block_write_o(block_write),
      .block_index_o(block_index),
      .block_o(block)
  );

  // ---- commands of one, two and three cycles ago, and the last block hash before them ----

  logic is_first_q = 1'b1;
  logic was_reset_q, take, valid1_q, valid2_q, valid3_q, has_hash_q;
  command_t command1_q, command2_q, command3_q, hash_q;
  assign take = valid_i && ready;

  always_ff @(posedge clk_i) begin
    is_first_q <= 1'b0;
    was_reset_q <= !rst_ni;
    valid1_q <= rst_ni && take;
    valid2_q <= rst_ni && valid1_q;
    valid3_q <= rst_ni && valid2_q;
    command1_q <= command_i;
    command2_q <= command1_q;
    command3_q <= command2_q;
    endpoint_q <= endpoint;
    control_q <= control;
    if (!rst_ni) has_hash_q <= 1'b0;
    else if (valid3_q && command3_q.op == CommandBlockHash) begin
      has_hash_q <= 1'b1;
      hash_q <= command3_q;
    end
  end

  always_comb begin
    assume (!is_first_q || !rst_ni);
  end

  // Returns 1 if `command` is of kind `kind`.
  function automatic logic is_kind(input logic valid, input command_t command, input command_e kind);
    return valid && command.op == kind;
  endfunction

  // Returns 1 if `command` writes register `index`.
  function automatic logic writes(input logic valid, input command_t command, input int unsigned index);
    return valid && command.op == CommandRegister && command.index == index;
  endfunction

  // Returns what register `index` must hold: the value of the command, or what it held before.
  function automatic logic [255:0] held(input logic valid, input command_t command, input int unsigned index,
                                        input logic [255:0] old);
    return writes(valid, command, index) ? command.value : old;
  endfunction

  command_t c;
  logic v;
  assign c = command3_q;
  assign v = valid3_q;

  always_comb begin
    if (!is_first_q && was_reset_q) begin
      assert (!ready && !line_write && !block_write && barrier == '0);
      assert (endpoint.port == '0 && endpoint.v4_answered == '0 && endpoint.v6_answered == '0);
      assert (control.lease_until_ns == '0 && control.epoch[0]);
    end
    if (External && !is_first_q && take) begin
      if (command_i.op == CommandLine) assert (line_ready_i);
      else begin
        assert (lines_done_i && !line_write && !(valid1_q && command1_q.op == CommandLine));
        assert (!(valid2_q && command2_q.op == CommandLine));
      end
    end
    if (!Registers && !is_first_q && !was_reset_q) begin
      assert (line_write == (v && c.op == CommandLine));
      if (line_write) begin
        assert (line_index == c.index[LineBits-1:0] && line_generation == c.first);
        assert (line_block == c.second[BlockBits-1:0] && line_txid == c.value);
      end
      assert (block_write == (v && c.op == CommandBlock));
      if (block_write) begin
        assert (block_index == c.index[BlockBits-1:0] && block.generation == c.first);
        assert (block.root_sum == c.second[15:0] && block.root == c.value);
        if (has_hash_q) begin
          assert (block.height == hash_q.first && block.hash_sum == hash_q.second[15:0] && block.hash == hash_q.value);
        end
      end
      if (v && c.op == CommandTip) begin
        assert (control.tip_height == c.first && control.tip_sum == c.second[15:0] && control.tip_hash == c.value);
      end else begin
        assert (control.tip_height == control_q.tip_height && control.tip_sum == control_q.tip_sum);
        assert (control.tip_hash == control_q.tip_hash);
      end
    end
    if (Registers && !is_first_q && !was_reset_q) begin
      assert (endpoint.mac == 48'(held(v, c, RegisterMac, 256'(endpoint_q.mac))));
      assert (endpoint.loopback == 1'(held(v, c, RegisterLoopback, 256'(endpoint_q.loopback))));
      assert (endpoint.v4_own == 8'(held(v, c, RegisterV4Own, 256'(endpoint_q.v4_own))));
      assert (endpoint.v4_answered == 8'(held(v, c, RegisterV4Answered, 256'(endpoint_q.v4_answered))));
      assert (endpoint.v6_own == 8'(held(v, c, RegisterV6Own, 256'(endpoint_q.v6_own))));
      assert (endpoint.v6_answered == 8'(held(v, c, RegisterV6Answered, 256'(endpoint_q.v6_answered))));
      assert (endpoint.port == 16'(held(v, c, RegisterSpvPort, 256'(endpoint_q.port))));
      for (int unsigned i = 0; i < RegisterV4Count; i++) begin
        assert ({endpoint.v4_broadcast[i], endpoint.v4[i]} ==
                64'(held(v, c, RegisterV4 + i, 256'({endpoint_q.v4_broadcast[i], endpoint_q.v4[i]}))));
      end
      for (int unsigned i = 0; i < RegisterV6Count; i++) begin
        assert (endpoint.v6[i] == 128'(held(v, c, RegisterV6 + i, 256'(endpoint_q.v6[i]))));
      end
      assert (control.lease_until_ns == 64'(held(v, c, RegisterSpvLeaseUntilNs, 256'(control_q.lease_until_ns))));
      assert (control.epoch == 64'(held(v, c, RegisterSpvEpoch, 256'(control_q.epoch))));
      assert (control.key == 192'(held(v, c, RegisterSpvKey, 256'(control_q.key))));
      assert (control.set_bits == 5'(held(v, c, RegisterSpvSetBits, 256'(control_q.set_bits))));
      assert (control.ways == 3'(held(v, c, RegisterSpvWays, 256'(control_q.ways))));
      assert (control.block_mask == 32'(held(v, c, RegisterSpvBlockMask, 256'(control_q.block_mask))));
      assert (control.paper_index == 1'(held(v, c, RegisterSpvPaperIndex, 256'(control_q.paper_index))));
      assert (control.paper_format == 1'(held(v, c, RegisterSpvPaperFormat, 256'(control_q.paper_format))));
    end
  end

  // Relations that make the induction possible.
  always_comb begin
    if (!is_first_q) begin
      if (was_reset_q) assert (!valid1_q && !valid2_q && !valid3_q && !has_hash_q);
      assert (valid1_q == u_dut.valid_q);
      assert (u_dut.command_q == command1_q);
      assert (u_dut.kind_q.is_line == (command1_q.op == CommandLine));
      assert (u_dut.kind_q.is_block_hash == (command1_q.op == CommandBlockHash));
      assert (u_dut.kind_q.is_block == (command1_q.op == CommandBlock));
      assert (u_dut.kind_q.is_tip == (command1_q.op == CommandTip));
      assert (u_dut.kind_q.is_register ==
              (command1_q.op == CommandRegister && command1_q.index[31:RegisterIndexBits] == '0));
      assert (u_dut.kind_q.is_barrier == (command1_q.op == CommandBarrier));
      assert (!valid2_q || u_dut.selected_q == command2_q);
      assert (u_dut.select_q.line == is_kind(valid2_q, command2_q, CommandLine));
      assert (u_dut.select_q.block_hash == is_kind(valid2_q, command2_q, CommandBlockHash));
      assert (u_dut.select_q.block == is_kind(valid2_q, command2_q, CommandBlock));
      assert (u_dut.select_q.tip == is_kind(valid2_q, command2_q, CommandTip));
      assert (u_dut.select_q.barrier == is_kind(valid2_q, command2_q, CommandBarrier));
      assert (u_dut.select_q.lease_until_ns == writes(valid2_q, command2_q, RegisterSpvLeaseUntilNs));
      assert (u_dut.select_q.epoch == writes(valid2_q, command2_q, RegisterSpvEpoch));
      assert (u_dut.select_q.key == writes(valid2_q, command2_q, RegisterSpvKey));
      assert (u_dut.select_q.set_bits == writes(valid2_q, command2_q, RegisterSpvSetBits));
      assert (u_dut.select_q.ways == writes(valid2_q, command2_q, RegisterSpvWays));
      assert (u_dut.select_q.block_mask == writes(valid2_q, command2_q, RegisterSpvBlockMask));
      assert (u_dut.select_q.paper_index == writes(valid2_q, command2_q, RegisterSpvPaperIndex));
      assert (u_dut.select_q.paper_format == writes(valid2_q, command2_q, RegisterSpvPaperFormat));
      assert (u_dut.u_endpoint.select_q.mac == writes(valid2_q, command2_q, RegisterMac));
      assert (u_dut.u_endpoint.select_q.loopback == writes(valid2_q, command2_q, RegisterLoopback));
      assert (u_dut.u_endpoint.select_q.v4_own == writes(valid2_q, command2_q, RegisterV4Own));
      assert (u_dut.u_endpoint.select_q.v4_answered == writes(valid2_q, command2_q, RegisterV4Answered));
      assert (u_dut.u_endpoint.select_q.v6_own == writes(valid2_q, command2_q, RegisterV6Own));
      assert (u_dut.u_endpoint.select_q.v6_answered == writes(valid2_q, command2_q, RegisterV6Answered));
      assert (u_dut.u_endpoint.select_q.port == writes(valid2_q, command2_q, RegisterSpvPort));
      for (int unsigned i = 0; i < RegisterV4Count; i++) begin
        assert (u_dut.u_endpoint.select_q.v4[i] == writes(valid2_q, command2_q, RegisterV4 + i));
      end
      for (int unsigned i = 0; i < RegisterV6Count; i++) begin
        assert (u_dut.u_endpoint.select_q.v6[i] == writes(valid2_q, command2_q, RegisterV6 + i));
      end
      if (v && c.op == CommandBlockHash) begin
        assert (u_dut.staged_height_q == c.first && u_dut.staged_hash_q == c.value);
        assert (u_dut.staged_sum_q == c.second[15:0]);
      end else if (has_hash_q) begin
        assert (u_dut.staged_height_q == hash_q.first && u_dut.staged_hash_q == hash_q.value);
        assert (u_dut.staged_sum_q == hash_q.second[15:0]);
      end
    end
  end

endmodule
