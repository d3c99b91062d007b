// SPDX-License-Identifier: Apache-2.0
//
// Proof of ls_transfer_commands, at full width: each command that was taken in takes effect once, in order, and changes
// nothing else.
// - An order for accounts or sessions is given out unchanged and stays until it is taken; nothing after it takes effect
//   before. A `transfer_fill` has what the last `transfer_last` since the fill before it prepared, or zeros.
// - A register changes one cycle after its command was in the second stage, to the value of the command.
// - After a reset nothing is answered and no order is given out.
// - No command is taken in while an order is in the second stage, or a barrier in one of the two stages.
// ls_spv_barrier_proof is about barriers.

module ls_transfer_commands_proof
  import ls_pkg::*;
  import ls_pipeline_pkg::*;
  import ls_transfer_pkg::*;
  import ls_transfer_packet_pkg::*;
(
    input logic clk_i,
    input logic rst_ni,

    input logic valid_i,
    input command_t command_i,
    input logic [15:0] accepted_i,
    input logic [15:0] passed_i,
    input logic order_ready_i,
    input logic session_order_ready_i
);

  logic ready, order_valid, session_order_valid;
  logic [31:0] barrier;
  endpoint_t endpoint, endpoint_q;
  control_t control, control_q;
  order_t order;
  session_order_t session_order;

  ls_transfer_commands u_dut (
      .clk_i,
      .rst_ni,
      .s_command_valid_i(valid_i),
      .s_command_ready_o(ready),
      .s_command_i(command_i),
      .accepted_i,
      .passed_i,
      .barrier_o(barrier),
      .endpoint_o(endpoint),
      .control_o(control),
      .order_valid_o(order_valid),
      .order_ready_i,
      .order_o(order),
      .session_order_valid_o(session_order_valid),
      .session_order_ready_i,
      .session_order_o(session_order)
  );

  // Returns 1 if the command is an order for accounts.
  function automatic logic is_order(input command_t command);
    return command.op inside {CommandTransferRead, CommandTransferFill, CommandTransferPut, CommandTransferRemove,
                              CommandTransferClaim, CommandTransferRelease, CommandTransferGrant};
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

  // ---- reference: commands that were taken in, oldest last, and the one that took effect in the last cycle ----

  logic is_first_q = 1'b1;
  logic was_reset_q, take, holds, leaves, valid1_q, valid2_q, valid3_q, valid4_q;
  command_t command1_q, command2_q, command3_q, command4_q;
  last_t last_q;
  assign take = valid_i && ready;
  assign holds = valid2_q && (is_order(command2_q) || command2_q.op == CommandTransferSession);
  assign leaves = holds && (command2_q.op == CommandTransferSession ? session_order_ready_i : order_ready_i);

  always_ff @(posedge clk_i) begin
    is_first_q <= 1'b0;
    was_reset_q <= !rst_ni;
    endpoint_q <= endpoint;
    control_q <= control;
    if (!rst_ni) begin
      valid1_q <= 1'b0;
      valid2_q <= 1'b0;
      valid3_q <= 1'b0;
      valid4_q <= 1'b0;
      last_q <= '0;
    end else begin
      valid4_q <= valid3_q;
      command4_q <= command3_q;
      valid3_q <= valid2_q && !holds;
      command3_q <= command2_q;
      if (holds) begin
        valid2_q <= !leaves;
      end else begin
        valid2_q <= valid1_q;
        command2_q <= command1_q;
        valid1_q <= take;
        command1_q <= command_i;
      end
      if (leaves && command2_q.op == CommandTransferFill) begin
        last_q <= '0;
      end else if (valid2_q && command2_q.op == CommandTransferLast) begin
        last_q.number <= command2_q.value[31:0];
        last_q.amount <= command2_q.value[63:32];
        last_q.reply <= command2_q.value[95:64];
        last_q.destination <= command2_q.value[127:96];
        last_q.command <= command2_q.first[3:0];
        last_q.code <= code_e'(command2_q.first[19:16]);
      end
    end
  end

  command_t c, o;
  logic v;
  assign c = command4_q;
  assign v = valid4_q;
  assign o = command2_q;

  always_comb begin
    assume (!is_first_q || !rst_ni);
    if (!is_first_q && was_reset_q) begin
      assert (!ready && !order_valid && !session_order_valid && barrier == '0);
      assert (endpoint.port == '0 && endpoint.v4_answered == '0 && endpoint.v6_answered == '0);
      assert (control.lease_until_ns == '0 && control.issuers == '0 && control.sessions == '0);
    end
    if (!is_first_q && !was_reset_q) begin
      // Nothing is lost: a command is taken in only if the first stage moves.
      if (ready) begin
        assert (!holds && !(valid1_q && command1_q.op == CommandBarrier));
        assert (!(valid2_q && command2_q.op == CommandBarrier));
      end
      assert (order_valid == (valid2_q && is_order(o)));
      assert (session_order_valid == (valid2_q && o.op == CommandTransferSession));
      if (order_valid) begin
        assert (order.user == o.index && order.id == o.id && order.linked == o.first[0]);
        assert (32'(order.kind) == o.op - CommandTransferRead);
        assert ({order.account.version, order.account.held_in, order.account.held_out, order.account.balance} ==
                o.value);
        assert (order.account.frozen == |(o.first & TransferCellFrozen));
        assert (order.account.claimed == |(o.first & TransferCellClaimed));
        assert (order.account.last == last_q);
      end
      if (session_order_valid) begin
        assert (session_order.index == o.index && session_order.slot == o.second);
        assert ({session_order.writes_claim, session_order.writes} == o.first[1:0]);
        assert (session_order.session.claimed == |(o.first & TransferCellClaimed));
        assert (session_order.session.count == o.first[23:8] && session_order.session.code == o.first[27:24]);
        assert ({session_order.session.amount, session_order.session.sum, session_order.session.session_sequence,
                 session_order.session.token} == o.value);
      end
      assert (endpoint.mac == 48'(held(v, c, RegisterMac, 256'(endpoint_q.mac))));
      assert (endpoint.loopback == 1'(held(v, c, RegisterLoopback, 256'(endpoint_q.loopback))));
      assert (endpoint.v4_own == 8'(held(v, c, RegisterV4Own, 256'(endpoint_q.v4_own))));
      assert (endpoint.v4_answered == 8'(held(v, c, RegisterV4Answered, 256'(endpoint_q.v4_answered))));
      assert (endpoint.v6_own == 8'(held(v, c, RegisterV6Own, 256'(endpoint_q.v6_own))));
      assert (endpoint.v6_answered == 8'(held(v, c, RegisterV6Answered, 256'(endpoint_q.v6_answered))));
      assert (endpoint.port == 16'(held(v, c, RegisterTransferPort, 256'(endpoint_q.port))));
      for (int unsigned i = 0; i < RegisterV4Count; i++) begin
        assert ({endpoint.v4_broadcast[i], endpoint.v4[i]} ==
                64'(held(v, c, RegisterV4 + i, 256'({endpoint_q.v4_broadcast[i], endpoint_q.v4[i]}))));
      end
      for (int unsigned i = 0; i < RegisterV6Count; i++) begin
        assert (endpoint.v6[i] == 128'(held(v, c, RegisterV6 + i, 256'(endpoint_q.v6[i]))));
      end
      assert (control.lease_until_ns == 64'(held(v, c, RegisterTransferLeaseUntilNs, 256'(control_q.lease_until_ns))));
      assert (control.key == 192'(held(v, c, RegisterTransferKey, 256'(control_q.key))));
      assert (control.mode == 2'(held(v, c, RegisterTransferMode, 256'(control_q.mode))));
      assert (control.paper_format == 1'(held(v, c, RegisterTransferPaperFormat, 256'(control_q.paper_format))));
      assert (control.require_signature ==
              1'(held(v, c, RegisterTransferRequireSignature, 256'(control_q.require_signature))));
      assert (control.issuers == 8'(held(v, c, RegisterTransferIssuers, 256'(control_q.issuers))));
      assert (control.sessions == 32'(held(v, c, RegisterTransferSessions, 256'(control_q.sessions))));
      for (int unsigned i = 0; i < RegisterTransferIssuerCount; i++) begin
        assert (control.issuer[i] == held(v, c, RegisterTransferIssuer + i, control_q.issuer[i]));
      end
    end
  end

  // Relations that make the induction possible.
  always_comb begin
    if (!is_first_q) begin
      if (was_reset_q) assert (!valid1_q && !valid2_q && !valid3_q && !valid4_q);
      assert (u_dut.valid_q == valid1_q && u_dut.holds_q == holds && (u_dut.clears_last_q || u_dut.last_q == last_q));
      if (u_dut.clears_last_q) assert (last_q == '0 && !u_dut.order_valid_o && !u_dut.is_last_q);
      if (valid1_q) begin
        assert (u_dut.command_q == command1_q);
        assert (u_dut.kind_q.is_order == is_order(command1_q));
        assert (u_dut.kind_q.is_fill == (command1_q.op == CommandTransferFill));
        assert (u_dut.kind_q.is_session == (command1_q.op == CommandTransferSession));
        assert (u_dut.kind_q.is_last == (command1_q.op == CommandTransferLast));
        assert (u_dut.kind_q.is_register ==
                (command1_q.op == CommandRegister && command1_q.index[31:RegisterIndexBits] == '0));
        assert (u_dut.kind_q.is_barrier == (command1_q.op == CommandBarrier));
      end
      if (valid2_q) assert (u_dut.selected_q == o && u_dut.is_fill_q == (o.op == CommandTransferFill));
      assert (u_dut.is_last_q == (valid2_q && o.op == CommandTransferLast));
      assert (u_dut.is_barrier_q == (valid2_q && o.op == CommandBarrier));
      assert (u_dut.is_register_q ==
              (valid2_q && o.op == CommandRegister && o.index[31:RegisterIndexBits] == '0));
      if (valid3_q) assert (u_dut.written_q == command3_q.value);
      assert (u_dut.select_q.lease_until_ns == writes(valid3_q, command3_q, RegisterTransferLeaseUntilNs));
      assert (u_dut.select_q.key == writes(valid3_q, command3_q, RegisterTransferKey));
      assert (u_dut.select_q.mode == writes(valid3_q, command3_q, RegisterTransferMode));
      assert (u_dut.select_q.paper_format == writes(valid3_q, command3_q, RegisterTransferPaperFormat));
      assert (u_dut.select_q.require_signature == writes(valid3_q, command3_q, RegisterTransferRequireSignature));
      assert (u_dut.select_q.sessions == writes(valid3_q, command3_q, RegisterTransferSessions));
      assert (u_dut.select_q.issuers == writes(valid3_q, command3_q, RegisterTransferIssuers));
      for (int unsigned i = 0; i < RegisterTransferIssuerCount; i++) begin
        assert (u_dut.select_q.issuer[i] == writes(valid3_q, command3_q, RegisterTransferIssuer + i));
      end
      assert (u_dut.u_endpoint.select_q.mac == writes(valid3_q, command3_q, RegisterMac));
      assert (u_dut.u_endpoint.select_q.loopback == writes(valid3_q, command3_q, RegisterLoopback));
      assert (u_dut.u_endpoint.select_q.v4_own == writes(valid3_q, command3_q, RegisterV4Own));
      assert (u_dut.u_endpoint.select_q.v4_answered == writes(valid3_q, command3_q, RegisterV4Answered));
      assert (u_dut.u_endpoint.select_q.v6_own == writes(valid3_q, command3_q, RegisterV6Own));
      assert (u_dut.u_endpoint.select_q.v6_answered == writes(valid3_q, command3_q, RegisterV6Answered));
      assert (u_dut.u_endpoint.select_q.port == writes(valid3_q, command3_q, RegisterTransferPort));
      for (int unsigned i = 0; i < RegisterV4Count; i++) begin
        assert (u_dut.u_endpoint.select_q.v4[i] == writes(valid3_q, command3_q, RegisterV4 + i));
      end
      for (int unsigned i = 0; i < RegisterV6Count; i++) begin
        assert (u_dut.u_endpoint.select_q.v6[i] == writes(valid3_q, command3_q, RegisterV6 + i));
      end
    end
  end

endmodule
