// SPDX-License-Identifier: Apache-2.0
//
// Sessions: decides whether the request of a session is new, a repetition or refused, and keeps its reply. The RTL twin
// of transfer_native_execute and transfer_in_session in xdp/transfer_native.h. Also forwards all requests without a
// lease.
//
// Interface, ready/valid each: requests in and out, in order; those that are not of a session pass at once. The sum of
// each request of a session comes by sum_*. done_i says that the oldest request that went out with OutcomeStore has its
// result, and done_writes_i that session_i is the session afterwards (but for claim and token, which stay).
// A request waits while another one of its session is under way, so it sees the effects of all before it. An order of
// the host waits until no request of a session is under way, and holds back those after it.
// Latency: three cycles for requests of sessions. Throughput: one of them every four cycles.
// Contents: undefined after power-on; zero in simulation.

module ls_transfer_session
  import ls_pkg::*;
  import ls_transfer_pkg::*;
  import ls_transfer_packet_pkg::*;
#(
    parameter int unsigned SessionBits = 10,
    parameter Style = "block"
) (
    input logic clk_i,
    input logic rst_ni,

    input logic [RegisterTransferSessionsBits-1:0] sessions_i,
    input logic is_leased_i,

    input logic valid_i,
    output logic ready_o,
    input request_t request_i,

    input logic sum_valid_i,
    output logic sum_ready_o,
    input logic [63:0] sum_i,

    output logic valid_o,
    input logic ready_i,
    output request_t request_o,

    input logic done_i,
    input logic done_writes_i,
    input session_t session_i,

    input logic order_valid_i,
    output logic order_ready_o,
    input session_order_t order_i,

    output logic response_valid_o,
    input logic response_ready_i,
    output logic response_known_o,  // the table has the slot
    output session_order_t response_o  // with the contents before the order
);

  localparam int unsigned UnderWay = 4;
  localparam int unsigned UnderWayBits = $clog2(UnderWay);

  typedef enum logic [2:0] {
    StateIdle,
    StateRead,
    StateDecide,
    StateGive,
    StateOrderRead,
    StateOrderWrite
  } state_e;

  // Request of a session whose result is not there.
  typedef struct packed {
    logic [SessionBits-1:0] slot;
    logic [63:0] token;
  } under_way_t;

  typedef logic [SessionBits-1:0] slot_t;

  state_e state_q;
  under_way_t [UnderWay-1:0] under_way_q;
  logic [UnderWayBits:0] first_q, next_q;
  logic is_session, is_conflict, is_empty, is_full, starts, gives;
  session_t read, written;
  session_order_t order_q;
  slot_t address, written_slot;
  logic write, order_known;
  request_t decided_d, decided_q;

  assign is_session = request_i.about.is_execute && request_i.about.outcome == OutcomeStore;
  assign is_empty = first_q == next_q;
  assign is_full = (next_q - first_q) == (UnderWayBits + 1)'(UnderWay);

  always_comb begin
    is_conflict = is_full;
    for (int unsigned i = 0; i < UnderWay; i++) begin
      if ((UnderWayBits + 1)'(i) < (next_q - first_q)) begin
        if (under_way_q[UnderWayBits'(first_q+(UnderWayBits+1)'(i))].slot == request_i.packet.slot[SessionBits-1:0])
          is_conflict = 1'b1;
      end
    end
  end

  assign starts = state_q == StateIdle && valid_i && is_session && sum_valid_i && !is_conflict && !order_valid_i;
  assign gives = state_q == StateGive && ready_i;
  assign order_ready_o = state_q == StateIdle && is_empty && !response_valid_o;
  assign ready_o = is_session ? gives : state_q == StateIdle && ready_i;
  assign valid_o = is_session ? state_q == StateGive : state_q == StateIdle && valid_i;
  // The lease counts when the request goes on, because it may have waited for an order of the host.
  always_comb begin
    request_o = is_session ? decided_q : request_i;
    if (!is_leased_i && !(request_o.about.outcome inside {OutcomeForward, OutcomeDrop})) begin
      request_o.about.outcome = OutcomeNotLeased;
    end
  end
  assign sum_ready_o = gives;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      state_q <= StateIdle;
    end else begin
      case (state_q)
        StateIdle: begin
          if (order_valid_i && order_ready_o) state_q <= StateOrderRead;
          else if (starts) state_q <= StateRead;
        end
        StateRead: state_q <= StateDecide;
        StateDecide: state_q <= StateGive;
        StateGive: if (ready_i) state_q <= StateIdle;
        StateOrderRead: state_q <= StateOrderWrite;
        default: state_q <= StateIdle;
      endcase
    end
  end

  // ---- table ----

  assign address = order_valid_i && order_ready_o ? order_i.slot[SessionBits-1:0] :
                   request_i.packet.slot[SessionBits-1:0];

  ls_ram #(
      .Width($bits(session_t)),
      .Depth(1 << SessionBits),
      .Style(Style)
  ) u_table (
      .clk_i,
      .write_i(write),
      .write_address_i(written_slot),
      .write_data_i(written),
      .read_i(1'b1),
      .read_address_i(address),
      .read_data_o(read)
  );

  // ---- decision (the slot was read two cycles ago) ----

  always_comb begin
    logic is_known;
    decided_d = request_i;
    is_known = request_i.packet.slot < sessions_i && request_i.packet.token != '0 &&
               read.token == request_i.packet.token;
    if (request_i.packet.slot < sessions_i && (request_i.packet.slot >> SessionBits) != '0) begin
      // The table has no place for this session of the host.
      decided_d.about.outcome = OutcomeHost;
    end else if (!is_known) begin
      decided_d.about.outcome = OutcomeStatus;
      decided_d.about.status = 4'(StatusNoSession);
      decided_d.about.session_sequence = '0;
      decided_d.about.code = CodeUnauthorised;
    end else if (read.claimed) begin
      decided_d.about.outcome = OutcomeHost;
    end else if (read.session_sequence != '0 && request_i.about.session_sequence == read.session_sequence) begin
      if (read.sum == sum_i && read.count == 16'd1) begin
        decided_d.about.outcome = OutcomeStored;
        decided_d.about.code = read.code;
        decided_d.about.amount = read.amount;
      end else begin
        decided_d.about.outcome = OutcomeStatus;
        decided_d.about.status = 4'(StatusReused);
        decided_d.about.session_sequence = read.session_sequence + 1'b1;
        decided_d.about.code = CodeIdReused;
      end
    end else if (request_i.about.session_sequence != read.session_sequence + 1'b1) begin
      decided_d.about.outcome = OutcomeStatus;
      decided_d.about.status = 4'(StatusSequence);
      decided_d.about.session_sequence = read.session_sequence + 1'b1;
      decided_d.about.code = CodeStaleId;
    end
  end

  always_ff @(posedge clk_i) if (state_q == StateDecide) decided_q <= decided_d;

  // ---- requests under way ----

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      first_q <= '0;
      next_q  <= '0;
    end else begin
      if (gives && request_o.about.outcome == OutcomeStore) next_q <= next_q + 1'b1;
      if (done_i) first_q <= first_q + 1'b1;
    end
    if (gives) begin
      under_way_q[next_q[UnderWayBits-1:0]] <= '{
          slot: request_i.packet.slot[SessionBits-1:0],
          token: request_i.packet.token
      };
    end
  end

  // ---- writes ----

  assign order_known = (order_q.slot >> SessionBits) == '0;

  always_comb begin
    if (state_q == StateOrderWrite) begin
      write = order_known && (order_q.writes || order_q.writes_claim);
      written_slot = order_q.slot[SessionBits-1:0];
      written = order_q.writes ? order_q.session : read;
      written.claimed = order_q.writes_claim ? order_q.session.claimed : read.claimed;
    end else begin
      write = done_i && done_writes_i;
      written_slot = under_way_q[first_q[UnderWayBits-1:0]].slot;
      written = session_i;
      // The request was executed, so its token is that of the session, and no claim came since.
      written.token = under_way_q[first_q[UnderWayBits-1:0]].token;
      written.claimed = 1'b0;
    end
  end

  always_ff @(posedge clk_i) begin
    if (order_valid_i && order_ready_o) order_q <= order_i;
    if (!rst_ni) response_valid_o <= 1'b0;
    else if (state_q == StateOrderWrite) response_valid_o <= 1'b1;
    else if (response_ready_i) response_valid_o <= 1'b0;
    if (state_q == StateOrderWrite) begin
      response_o <= order_q;
      response_o.session <= read;
      response_known_o <= order_known;
    end
  end

endmodule
