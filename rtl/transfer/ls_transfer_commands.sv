// SPDX-License-Identifier: Apache-2.0
//
// Executes the commands of the host (spec/rtl.toml) for `transfer`: orders to the store, writes of the registers, and
// barriers. Commands of other services are ignored.
//
// Interface: s_command takes a command of 64 bytes; it waits for an earlier barrier, and until an earlier order was
// taken, so that there is one order in two cycles at most. Commands take effect in order; registers change four cycles
// after the command was taken in: a command is registered with its kind, then for its turn, and its value then with one
// bit for each register that it may change; these bits alone enable the registers, which are all over the chip.
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
    output order_t order_o,

    output logic session_order_valid_o,
    input logic session_order_ready_i,
    output session_order_t session_order_o
);

  // Flags of an order, in `first`.
  localparam int unsigned FlagLinked = 0;
  localparam int unsigned FlagWrites = 0;
  localparam int unsigned FlagWritesClaim = 1;
  localparam int unsigned FlagFrozen = $clog2(TransferCellFrozen);
  localparam int unsigned FlagClaimed = $clog2(TransferCellClaimed);

  typedef struct packed {
    logic is_order;
    logic is_fill;
    logic is_session;
    logic is_last;
    logic is_register;  // and the high bits of the index are those of a register
    logic is_barrier;
  } kind_t;

  // The register that a command changes, except those of the endpoint; at most one bit is 1.
  typedef struct packed {
    logic lease_until_ns;
    logic key;
    logic mode;
    logic paper_format;
    logic require_signature;
    logic sessions;
    logic issuers;
    logic [RegisterTransferIssuerCount-1:0] issuer;
  } select_t;

  logic runs_q, valid_q, barrier_pending, is_next;
  command_t command_q, selected_q;
  kind_t kind_q;
  select_t select, select_q;
  logic is_fill_q;  // the order is `transfer_fill`
  logic is_last_q, is_barrier_q, is_register_q;  // what selected_q is, for one cycle
  logic holds_q;  // an order waits in the second stage until it is taken, and nothing moves meanwhile
  last_t last_q;
  logic clears_last_q;
  logic [RegisterIndexBits-1:0] index;
  logic [255:0] value, written_q;

  assign value = selected_q.value;
  // A barrier may still be in one of the two stages, so a command after it waits until it is pending or complete.
  assign s_command_ready_o = runs_q && !holds_q && !barrier_pending && !(valid_q && kind_q.is_barrier) &&
                             !is_barrier_q;

  always_ff @(posedge clk_i) begin
    runs_q <= rst_ni;  // during the reset, no command is taken
    if (!rst_ni) valid_q <= 1'b0;
    else if (!holds_q) valid_q <= s_command_valid_i && s_command_ready_o;
  end

  always_ff @(posedge clk_i) begin
    if (!holds_q) begin
      command_q <= s_command_i;
      kind_q.is_order <= s_command_i.op >= CommandTransferRead && s_command_i.op <= CommandTransferGrant;
      kind_q.is_fill <= s_command_i.op == CommandTransferFill;
      kind_q.is_session <= s_command_i.op == CommandTransferSession;
      kind_q.is_last <= s_command_i.op == CommandTransferLast;
      kind_q.is_register <= s_command_i.op == CommandRegister && s_command_i.index[31:RegisterIndexBits] == '0;
      kind_q.is_barrier <= s_command_i.op == CommandBarrier;
    end
  end

  // ---- selection ----

  assign is_next = valid_q && !holds_q;
  assign index = selected_q.index[RegisterIndexBits-1:0];

  always_comb begin
    select.lease_until_ns = is_register_q && index == RegisterIndexBits'(RegisterTransferLeaseUntilNs);
    select.key = is_register_q && index == RegisterIndexBits'(RegisterTransferKey);
    select.mode = is_register_q && index == RegisterIndexBits'(RegisterTransferMode);
    select.paper_format = is_register_q && index == RegisterIndexBits'(RegisterTransferPaperFormat);
    select.require_signature = is_register_q && index == RegisterIndexBits'(RegisterTransferRequireSignature);
    select.sessions = is_register_q && index == RegisterIndexBits'(RegisterTransferSessions);
    select.issuers = is_register_q && index == RegisterIndexBits'(RegisterTransferIssuers);
    for (int unsigned i = 0; i < RegisterTransferIssuerCount; i++) begin
      select.issuer[i] = is_register_q && index == RegisterIndexBits'(RegisterTransferIssuer + i);
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      is_last_q <= 1'b0;
      is_barrier_q <= 1'b0;
      is_register_q <= 1'b0;
      select_q <= '0;
      order_valid_o <= 1'b0;
      session_order_valid_o <= 1'b0;
      holds_q <= 1'b0;
    end else begin
      is_last_q <= is_next && kind_q.is_last;
      is_barrier_q <= is_next && kind_q.is_barrier;
      is_register_q <= is_next && kind_q.is_register;
      select_q <= select;
      if (holds_q) begin
        if (order_ready_i) order_valid_o <= 1'b0;
        if (session_order_ready_i) session_order_valid_o <= 1'b0;
        holds_q <= order_valid_o ? !order_ready_i : !session_order_ready_i;
      end else begin
        order_valid_o <= valid_q && kind_q.is_order;
        session_order_valid_o <= valid_q && kind_q.is_session;
        holds_q <= valid_q && (kind_q.is_order || kind_q.is_session);
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (!holds_q) begin
      selected_q <= command_q;
      is_fill_q  <= kind_q.is_fill;
    end
    written_q <= value;
  end

  // ---- orders ----

  always_comb begin
    order_o.user = selected_q.index;
    order_o.linked = selected_q.first[FlagLinked];
    order_o.kind = order_e'(4'(selected_q.op - CommandTransferRead));
    order_o.id = selected_q.id;
    order_o.account.balance = value[63:0];
    order_o.account.held_out = value[127:64];
    order_o.account.held_in = value[191:128];
    order_o.account.version = value[255:192];
    order_o.account.frozen = selected_q.first[FlagFrozen];
    order_o.account.claimed = selected_q.first[FlagClaimed];
    order_o.account.last = last_q;
  end

  always_comb begin
    session_order_o.index = selected_q.index;
    session_order_o.slot = selected_q.second;
    session_order_o.writes = selected_q.first[FlagWrites];
    session_order_o.writes_claim = selected_q.first[FlagWritesClaim];
    session_order_o.session.claimed = selected_q.first[FlagClaimed];
    session_order_o.session.count = selected_q.first[23:8];
    session_order_o.session.code = code_e'(selected_q.first[27:24]);
    session_order_o.session.token = value[63:0];
    session_order_o.session.session_sequence = value[127:64];
    session_order_o.session.sum = value[191:128];
    session_order_o.session.amount = value[255:192];
  end

  always_ff @(posedge clk_i) begin
    // The next command is selected two cycles after the order has left.
    clears_last_q <= rst_ni && order_valid_o && order_ready_i && is_fill_q;
    if (!rst_ni || clears_last_q) begin
      last_q <= '0;
    end else if (is_last_q) begin
      last_q.number <= value[31:0];
      last_q.amount <= value[63:32];
      last_q.reply <= value[95:64];
      last_q.destination <= value[127:96];
      last_q.command <= selected_q.first[3:0];
      last_q.code <= code_e'(selected_q.first[19:16]);
    end
  end

`ifndef SYNTHESIS
  // A barrier, or an order about a session, would wait for requests, and these wait for the end of the linked orders.
  logic is_linked_q;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) is_linked_q <= 1'b0;
    else if (order_valid_o && order_ready_i) is_linked_q <= order_o.linked;
    if (rst_ni && is_linked_q) begin
      assert (!session_order_valid_o && !is_barrier_q) else $error("another command between linked orders");
    end
  end
`endif

  // ---- registers ----

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      // Without a lease, everything is forwarded.
      control_o.lease_until_ns <= '0;
      control_o.mode <= ModeDurable;
      control_o.issuers <= '0;
      control_o.sessions <= '0;
      control_o.require_signature <= 1'b1;
      control_o.paper_format <= 1'b0;
    end else begin
      if (select_q.lease_until_ns) control_o.lease_until_ns <= written_q[RegisterTransferLeaseUntilNsBits-1:0];
      if (select_q.mode) control_o.mode <= written_q[RegisterTransferModeBits-1:0];
      if (select_q.sessions) control_o.sessions <= written_q[RegisterTransferSessionsBits-1:0];
      if (select_q.issuers) control_o.issuers <= written_q[RegisterTransferIssuersBits-1:0];
      if (select_q.require_signature) control_o.require_signature <= written_q[0];
      if (select_q.paper_format) control_o.paper_format <= written_q[0];
    end
  end

  always_ff @(posedge clk_i) begin
    if (select_q.key) control_o.key <= written_q[RegisterTransferKeyBits-1:0];
    for (int unsigned i = 0; i < RegisterTransferIssuerCount; i++) begin
      if (select_q.issuer[i]) control_o.issuer[i] <= range_t'(written_q);
    end
  end

  ls_endpoint #(
      .PortRegister(RegisterTransferPort)
  ) u_endpoint (
      .clk_i,
      .rst_ni,
      .select_i(is_register_q),
      .index_i(index),
      .value_i(written_q[RegisterV6Bits-1:0]),
      .endpoint_o
  );

  // ---- barrier ----

  ls_barrier u_barrier (
      .clk_i,
      .rst_ni,
      .set_i(is_barrier_q),
      .index_i(selected_q.index),
      .accepted_i,
      .passed_i,
      .pending_o(barrier_pending),
      .barrier_o
  );

endmodule
