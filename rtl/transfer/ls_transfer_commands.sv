// SPDX-License-Identifier: Apache-2.0
//
// Executes the commands of the host (spec/rtl.toml) for `transfer`: orders to the store, writes of the registers, and
// barriers. Commands of other services are ignored.
//
// Interface: s_command takes a command of 64 bytes; it waits for an earlier barrier, and until the store has taken an
// earlier order. Commands take effect in order; registers change two cycles after the command was taken in.
// barrier_o is the index of the last completed barrier; accepted_i and passed_i count frames.

module ls_transfer_commands
  import ls_pkg::*;
  import ls_pipeline_pkg::*;
  import ls_transfer_pkg::*;
  import ls_transfer_packet_pkg::*;
(
    input logic clk_i,
    input logic rst_ni,

    input logic s_command_valid_i,
    output logic s_command_ready_o,
    input command_t s_command_i,

    input logic [15:0] accepted_i,
    input logic [15:0] passed_i,
    output logic [31:0] barrier_o,

    output endpoint_t endpoint_o,
    output control_t  control_o,

    output logic   order_valid_o,
    input  logic   order_ready_i,
    output order_t order_o
);

  // Flags of an order, in `first`.
  localparam int unsigned FlagLinked = 0;
  localparam int unsigned FlagFrozen = $clog2(TransferCellFrozen);
  localparam int unsigned FlagClaimed = $clog2(TransferCellClaimed);

  logic valid_q, barrier_pending, is_barrier, is_order, is_register, waits;
  command_t command_q;
  last_t last_q;
  logic [255:0] value;

  assign value = command_q.value;
  assign is_barrier = valid_q && command_q.op == CommandBarrier;
  assign is_order = valid_q && command_q.op >= CommandTransferRead && command_q.op <= CommandTransferGrant;
  assign is_register = valid_q && command_q.op == CommandRegister;
  assign waits = is_order && !order_ready_i;
  // A barrier may still be in command_q, so a command after it waits until it is pending or complete.
  assign s_command_ready_o = !barrier_pending && !is_barrier && !waits;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) valid_q <= 1'b0;
    else if (!waits) valid_q <= s_command_valid_i && s_command_ready_o;
  end

  always_ff @(posedge clk_i) if (!waits) command_q <= s_command_i;

  // ---- orders ----

  always_comb begin
    order_valid_o = is_order;
    order_o.user = command_q.index;
    order_o.linked = command_q.first[FlagLinked];
    order_o.kind = order_e'(4'(command_q.op - CommandTransferRead));
    order_o.id = command_q.id;
    order_o.account.balance = value[63:0];
    order_o.account.held_out = value[127:64];
    order_o.account.held_in = value[191:128];
    order_o.account.version = value[255:192];
    order_o.account.frozen = command_q.first[FlagFrozen];
    order_o.account.claimed = command_q.first[FlagClaimed];
    order_o.account.last = last_q;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      last_q <= '0;
    end else if (is_order && order_ready_i && command_q.op == CommandTransferFill) begin
      last_q <= '0;
    end else if (valid_q && command_q.op == CommandTransferLast) begin
      last_q.number <= value[31:0];
      last_q.amount <= value[63:32];
      last_q.reply <= value[95:64];
      last_q.destination <= value[127:96];
      last_q.command <= command_q.first[3:0];
      last_q.code <= code_e'(command_q.first[19:16]);
    end
  end

  // ---- registers ----

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      // Without a lease, everything is forwarded.
      control_o.lease_until_ns <= '0;
      control_o.mode <= ModeDurable;
      control_o.issuers <= '0;
      control_o.require_signature <= 1'b1;
      control_o.paper_format <= 1'b0;
    end else if (is_register) begin
      case (command_q.index)
        RegisterTransferLeaseUntilNs: control_o.lease_until_ns <= value[RegisterTransferLeaseUntilNsBits-1:0];
        RegisterTransferMode: control_o.mode <= value[RegisterTransferModeBits-1:0];
        RegisterTransferIssuers: control_o.issuers <= value[RegisterTransferIssuersBits-1:0];
        RegisterTransferRequireSignature: control_o.require_signature <= value[0];
        RegisterTransferPaperFormat: control_o.paper_format <= value[0];
        default: ;
      endcase
    end
  end

  always_ff @(posedge clk_i) begin
    if (is_register) begin
      if (command_q.index == RegisterTransferKey) control_o.key <= value[RegisterTransferKeyBits-1:0];
      for (int unsigned i = 0; i < RegisterTransferIssuerCount; i++) begin
        if (command_q.index == RegisterTransferIssuer + i) control_o.issuer[i] <= range_t'(value);
      end
    end
  end

  ls_endpoint #(
      .PortRegister(RegisterTransferPort)
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
      .set_i(is_barrier),
      .index_i(command_q.index),
      .accepted_i,
      .passed_i,
      .pending_o(barrier_pending),
      .barrier_o
  );

endmodule
