// SPDX-License-Identifier: Apache-2.0
//
// Sessions: decides whether the request of a session is new, a repetition or refused, and keeps its reply. The RTL twin
// of transfer_native_execute and transfer_in_session in xdp/transfer_native.h. Also forwards all requests without a
// lease.
//
// Interface: requests in and out, ready/valid, in order; those that are not of a session pass at once if no other one
// waits. left_valid_i is 1 while the oldest request of a session that went out has its checksum, and its result if it
// went to the store; it leaves in the first such cycle in which left_ready_o is 1. A repetition then has its reply in
// stored_*. An order of the host waits until no request of a session is under way, and holds back those after it.
//
// Requests of one session see each other: a request takes the last sequence number from the newest request of its
// session among the last Recent ones, else from the table. A new request needs no more than that, so it goes to the
// store before its checksum and the result of the one before are known. A repetition is compared when it leaves, after
// the one that it repeats. The request before may turn out not to be executed: it has no place for its record or no
// lease, which is known when the store takes it, so the decision about the next one is made again; or the host has
// claimed an account. While this is possible (may_forward_i), the next request of the session waits for the result.
//
// Latency: five cycles for requests of sessions. Throughput: one of them every two cycles.
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

    output logic valid_o,
    input logic ready_i,
    output request_t request_o,
    output replay_t replay_o,
    // About the store, when it takes the request: no place for its record; it may answer that the host must execute.
    input logic is_full_i,
    input logic may_forward_i,

    input logic left_valid_i,  // only with has_sum
    output logic left_ready_o,
    input replay_t left_replay_i,
    input outcome_e left_outcome_i,
    input logic left_writes_i,  // the request was executed: left_session_i is the session (but for token and claim)
    input session_t left_session_i,  // always with sequence number and checksum of the request
    output logic stored_is_same_o,  // a repetition with the body of the request that was executed
    output code_e stored_code_o,
    output amount_t stored_amount_o,

    input logic order_valid_i,
    output logic order_ready_o,
    input session_order_t order_i,

    output logic response_valid_o,
    input logic response_ready_i,
    output logic response_known_o,  // the table has the slot
    output session_order_t response_o  // with the contents before the order
);

  localparam int unsigned Window = 4;  // requests that wait for their decision
  localparam int unsigned WindowBits = $clog2(Window);

  typedef enum logic [1:0] {
    StateIdle,
    StateOrderRead,
    StateOrderWrite
  } state_e;

  typedef logic [SessionBits-1:0] slot_t;
  typedef logic [RecentBits-1:0] place_t;
  typedef logic [RecentBits:0] count_t;

  typedef struct packed {
    logic [63:0] sum;
    code_e code;
    amount_t amount;
  } stored_t;

  state_e state_q;
  session_order_t order_q;
  logic starts_order;

  // ---- requests that wait for their decision ----

  logic is_session, passes, enters, window_valid, window_ready, take;
  logic head_is_session, content_valid, contents_ready;
  request_t head;
  session_t read, content;
  logic [1:0] reading_q;
  logic [WindowBits:0] reads_q;  // requests of sessions that wait
  logic [WindowBits:0] unused_window, unused_contents;
  logic leaves, out_valid_q;

  assign is_session = request_i.about.is_execute && request_i.about.outcome == OutcomeStore;
  assign passes = valid_i && !is_session && !window_valid && !out_valid_q;
  assign enters = valid_i && !passes && window_ready &&
                  (!is_session || (state_q == StateIdle && !order_valid_i));
  assign ready_o = passes ? ready_i : enters;

  ls_fifo #(
      .T(request_t),
      .Depth(Window)
  ) u_window (
      .clk_i,
      .rst_ni,
      .valid_i(enters),
      .ready_o(window_ready),
      .data_i (request_i),
      .valid_o(window_valid),
      .ready_i(take),
      .data_o (head),
      .count_o(unused_window)
  );

  assign head_is_session = head.about.is_execute && head.about.outcome == OutcomeStore;

  // ---- table ----

  slot_t address, written_slot;
  session_t written;
  logic write;

  assign address = starts_order ? order_i.slot[SessionBits-1:0] : request_i.packet.slot[SessionBits-1:0];

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

  ls_fifo #(
      .T(session_t),
      .Depth(Window)
  ) u_contents (
      .clk_i,
      .rst_ni,
      .valid_i(reading_q[1]),
      .ready_o(contents_ready),
      .data_i (read),
      .valid_o(content_valid),
      .ready_i(take && head_is_session),
      .data_o (content),
      .count_o(unused_contents)
  );

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      reading_q <= '0;
      reads_q   <= '0;
    end else begin
      reading_q <= {reading_q[0], enters && is_session};
      reads_q   <= reads_q + (WindowBits + 1)'(enters && is_session) - (WindowBits + 1)'(take && head_is_session);
    end
  end

  // ---- recent requests: given to the store since the last order of the host, and executed as far as is known ----

  count_t first_q, next_q, under_way;
  logic [Recent-1:0] valid_q, sure_q;  // sure: it will be executed
  slot_t [Recent-1:0] slot_q;
  logic [63:0] sequences[Recent];
  logic [63:0] tokens[Recent];
  stored_t replies[Recent];
  logic [Recent-1:0] is_same, ordered;
  logic is_recent, is_recent_q, is_unsure;
  place_t newest, newest_q, age;
  logic [63:0] last, last_q;
  stored_t remembered;
  logic adds, done;

  assign under_way = next_q - first_q;

  // The newest request of the session of the request at the head.
  always_comb begin
    for (int unsigned i = 0; i < Recent; i++) begin
      is_same[i] = valid_q[i] && slot_q[i] == head.packet.slot[SessionBits-1:0];
    end
    // Oldest first.
    ordered = Recent'({is_same, is_same} >> next_q[RecentBits-1:0]);
    newest = '0;
    for (int unsigned i = 0; i < Recent; i++) if (ordered[i]) newest = place_t'(i) + next_q[RecentBits-1:0];
    is_recent = |is_same;
    // Its number among those under way; one that has left has a larger number.
    age = newest - first_q[RecentBits-1:0];
    is_unsure = is_recent && !sure_q[newest] && count_t'(age) < under_way;
    last = is_recent ? sequences[newest] : content.session_sequence;
  end

  // ---- decision: the first cycle finds the last sequence number, the second one compares ----

  logic selects, selected_q, again, is_known;
  request_t decided, out_q;
  replay_t replay, out_replay_q;

  assign again = leaves && out_replay_q.is_counted && (is_full_i || !is_leased_i || may_forward_i);
  assign selects = window_valid && head_is_session && content_valid && !selected_q && !is_unsure && !again &&
                   under_way < count_t'(UnderWay);
  assign take = window_valid && (!out_valid_q || ready_i) && (!head_is_session || (selected_q && !again));
  assign adds = take && replay.is_counted;

  always_comb begin
    decided = head;
    replay = '0;
    is_known = head.packet.slot < sessions_i && head.packet.token != '0 && content.token == head.packet.token;
    if (head_is_session) begin
      replay.has_sum = 1'b1;
      if (head.packet.slot < sessions_i && (head.packet.slot >> SessionBits) != '0) begin
        // The table has no place for this session of the host.
        decided.about.outcome = OutcomeHost;
      end else if (!is_known) begin
        decided.about.outcome = OutcomeStatus;
        decided.about.status = 4'(StatusNoSession);
        decided.about.session_sequence = '0;
        decided.about.code = CodeUnauthorised;
      end else if (content.claimed) begin
        decided.about.outcome = OutcomeHost;
      end else if (last_q != '0 && head.about.session_sequence == last_q) begin
        decided.about.outcome = OutcomeStored;
        decided.about.code = content.code;
        decided.about.amount = content.amount;
        replay.is_recent = is_recent_q;
        replay.place = newest_q;
        replay.is_single = content.count == 16'd1;
        replay.sum = content.sum;
      end else if (head.about.session_sequence != last_q + 1'b1) begin
        decided.about.outcome = OutcomeStatus;
        decided.about.status = 4'(StatusSequence);
        decided.about.session_sequence = last_q + 1'b1;
        decided.about.code = CodeStaleId;
      end else begin
        replay.is_counted = 1'b1;
        replay.place = next_q[RecentBits-1:0];
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) selected_q <= 1'b0;
    else if (selects) selected_q <= 1'b1;
    else if (again || take) selected_q <= 1'b0;
    if (selects) begin
      is_recent_q <= is_recent;
      newest_q <= newest;
      last_q <= last;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) out_valid_q <= 1'b0;
    else if (!out_valid_q || ready_i) out_valid_q <= take;
    if (take) begin
      out_q <= decided;
      out_replay_q <= replay;
    end
  end

  assign leaves  = out_valid_q && ready_i;
  assign valid_o = out_valid_q || passes;
  // The lease counts when the request goes on, because it may have waited for an order of the host.
  always_comb begin
    request_o = out_valid_q ? out_q : request_i;
    replay_o  = out_valid_q ? out_replay_q : '0;
    if (!is_leased_i && !(request_o.about.outcome inside {OutcomeForward, OutcomeDrop})) begin
      request_o.about.outcome = OutcomeNotLeased;
    end
  end

  // ---- requests that leave ----

  logic is_repetition, settled_q, unused_has_sum;

  assign unused_has_sum = &{1'b0, left_replay_i};
  assign is_repetition = left_outcome_i == OutcomeStored;
  assign left_ready_o = !is_repetition || settled_q;
  assign done = left_valid_i && left_ready_o && left_replay_i.is_counted;
  assign remembered = replies[left_replay_i.place];

  always_ff @(posedge clk_i) begin
    settled_q <= rst_ni && left_valid_i && !left_ready_o;
    stored_is_same_o <= left_replay_i.is_recent ? left_session_i.sum == remembered.sum :
                        left_replay_i.is_single && left_session_i.sum == left_replay_i.sum;
    stored_code_o <= left_replay_i.is_recent ? remembered.code : left_session_i.code;
    stored_amount_o <= left_replay_i.is_recent ? remembered.amount : left_session_i.amount;
  end

  always_ff @(posedge clk_i) begin
    if (done) begin
      replies[left_replay_i.place] <= '{
          sum: left_session_i.sum,
          code: left_session_i.code,
          amount: left_session_i.amount
      };
    end
    if (adds) begin
      sequences[next_q[RecentBits-1:0]] <= head.about.session_sequence;
      tokens[next_q[RecentBits-1:0]] <= head.packet.token;
      slot_q[next_q[RecentBits-1:0]] <= head.packet.slot[SessionBits-1:0];
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      first_q <= '0;
      next_q  <= '0;
      valid_q <= '0;
    end else begin
      if (done) begin
        first_q <= first_q + 1'b1;
        if (!left_writes_i) valid_q[left_replay_i.place] <= 1'b0;
      end
      if (adds) begin
        next_q <= next_q + 1'b1;
        valid_q[next_q[RecentBits-1:0]] <= 1'b1;
        sure_q[next_q[RecentBits-1:0]] <= 1'b1;
      end
      if (leaves && out_replay_q.is_counted) begin
        if (is_full_i || !is_leased_i) valid_q[out_replay_q.place] <= 1'b0;
        if (may_forward_i) sure_q[out_replay_q.place] <= 1'b0;
      end
      if (write && state_q == StateOrderWrite) valid_q <= '0;
    end
  end

  // ---- writes, and orders of the host ----

  logic order_known;

  assign order_known = (order_q.slot >> SessionBits) == '0;
  assign order_ready_o = state_q == StateIdle && !response_valid_o && reads_q == '0 && first_q == next_q &&
                         !(out_valid_q && out_replay_q.has_sum);
  assign starts_order = order_valid_i && order_ready_o;

  always_comb begin
    if (state_q == StateOrderWrite) begin
      write = order_known && (order_q.writes || order_q.writes_claim);
      written_slot = order_q.slot[SessionBits-1:0];
      written = order_q.writes ? order_q.session : read;
      written.claimed = order_q.writes_claim ? order_q.session.claimed : read.claimed;
    end else begin
      write = done && left_writes_i;
      written_slot = slot_q[left_replay_i.place];
      written = left_session_i;
      // The request was executed, so its token is that of the session, and no claim came since.
      written.token = tokens[left_replay_i.place];
      written.claimed = 1'b0;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      state_q <= StateIdle;
    end else begin
      case (state_q)
        StateIdle: if (starts_order) state_q <= StateOrderRead;
        StateOrderRead: state_q <= StateOrderWrite;
        default: state_q <= StateIdle;
      endcase
    end
  end

  always_ff @(posedge clk_i) begin
    if (starts_order) order_q <= order_i;
    if (!rst_ni) response_valid_o <= 1'b0;
    else if (state_q == StateOrderWrite) response_valid_o <= 1'b1;
    else if (response_ready_i) response_valid_o <= 1'b0;
    if (state_q == StateOrderWrite) begin
      response_o <= order_q;
      response_o.session <= read;
      response_known_o <= order_known;
    end
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (!reading_q[1] || contents_ready) else $error("the contents of a session were lost");
    end
  end
`endif

endmodule
