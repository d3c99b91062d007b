// SPDX-License-Identifier: Apache-2.0
//
// Sessions: decides whether the request of a session is new, a repetition or refused, and keeps its reply. The RTL twin
// of transfer_native_execute and transfer_in_session in xdp/transfer_native.h. Also forwards all requests without a
// lease.
//
// Interface: requests in and out, ready/valid, in order; those that are not of a session pass at once. The keys of the
// requests of sessions come in the same order by an input of their own, ready/valid, and may come before or after their
// requests. left_valid_i is 1 in the cycle in which the oldest request of a session that went out leaves, with its
// checksum, and with its result if it went to the store. The fields of a repetition are at left_* in the three cycles
// before, too, with the number after its own; in the last of them its reply is in stored_*. An order of the host waits
// until all requests of sessions are decided and those that were given to the store have left, and holds back those
// after it. Repetitions and refusals that were decided before the order may leave after it, with the replies that they
// have. order_i stays as it is, but order_valid_i may become 0.
//
// Requests of one session see each other: a request takes the next sequence number from the newest request of its
// session among the last Recent ones, else from the table. A new request needs no more than that, so it goes to the
// store before its checksum and the result of the one before are known. A repetition is compared at the end of its way,
// after the one that it repeats has left. The request before may turn out not to be executed: it has no place for its
// record or no lease, which is known when the store takes it, so the decision about the next one is made again; or the
// host has claimed an account. While this is possible (may_forward_i), the next request of the session waits for the
// result.
//
// Latency: seven cycles from the key to its request, one for other requests. Throughput: one request in each cycle, of
// sessions one every three cycles; each has at least three beats.
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

    input logic key_valid_i,
    output logic key_ready_o,
    input session_key_t key_i,

    output logic valid_o,
    input logic ready_i,
    output decided_t decided_o,  // without a lease, its outcome is not OutcomeStore, even if it has needs_store
    // About the store, when it takes the request: no place for its record; it may answer that the host must execute.
    input logic is_full_i,
    input logic may_forward_i,

    input logic left_valid_i,
    input replay_t left_replay_i,
    input logic left_writes_i,  // the request was executed: left_session_i is the session (but for token and claim)
    input session_t left_session_i,  // always with the checksum of the request
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

  localparam int unsigned Reads = 4;  // requests of sessions that wait for their decision
  localparam int unsigned ReadBits = $clog2(Reads);

  // See Recent.
  if (Recent < UnderWay + Reads) begin : gen_too_few_recent
    $fatal(1, "a request may find no request before it of its session");
  end

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
  logic order_waits_q;  // holds back requests of sessions
  logic starts_order;

  // ---- requests that wait for their decision ----

  logic decides, decides_q, may_read_q, enters, may_decide, take;
  logic loads, head_valid_q, adds_q;
  logic key_valid, keys_ready, content_valid, contents_ready, out_valid, out_ready, leaves;
  session_key_t key, head_q;
  decided_t decided, out;
  session_t read, read_q, next_read, content;  // next_read and content have the number after their own
  logic [63:0] next_number;
  logic [3:0] reading_q;
  logic [ReadBits:0] reads_q, reads_d;  // keys that wait
  logic [ReadBits:0] unused_contents, unused_keys;

  assign key_ready_o = may_read_q;
  assign enters = key_valid_i && may_read_q;
  assign ready_o = out_ready && (!request_i.is_session || may_decide);
  assign take = valid_i && ready_o;

  // All keys but the next one, which is in head_q. So its decision begins while others go on.
  ls_fifo #(
      .T(session_key_t),
      .Depth(Reads),
      .WritesIdle(1'b1)
  ) u_keys (
      .clk_i,
      .rst_ni,
      .valid_i(enters),
      .ready_o(keys_ready),
      .data_i (key_i),
      .valid_o(key_valid),
      .ready_i(loads),
      .data_o (key),
      .count_o(unused_keys)
  );

  assign decides = take && request_i.is_session;
  // A request that was added is compared in the cycle after it, if another one does not follow at once.
  assign loads = (!head_valid_q && !adds_q) || decides;

  always_ff @(posedge clk_i) begin
    decides_q <= rst_ni && decides;
    if (!rst_ni) head_valid_q <= 1'b0;
    else if (loads) head_valid_q <= key_valid;
    if (loads) head_q <= key;
  end

  // ---- table ----

  slot_t address_q, written_slot;
  session_t written;
  logic write;

  // While an order waits, no key comes in.
  always_ff @(posedge clk_i) begin
    address_q <= order_waits_q ? order_i.slot[SessionBits-1:0] : key_i.slot[SessionBits-1:0];
  end

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
      .read_address_i(address_q),
      .read_data_o(read)
  );

  // The number of the last request is needed only to know the next one.
  always_ff @(posedge clk_i) read_q <= read;
  assign next_number = read_q.session_sequence + 1'b1;
  always_comb begin
    next_read = read_q;
    next_read.session_sequence = next_number;
  end

  ls_fifo #(
      .T(session_t),
      .Depth(Reads)
  ) u_contents (
      .clk_i,
      .rst_ni,
      .valid_i(reading_q[3]),
      .ready_o(contents_ready),
      .data_i (next_read),
      .valid_o(content_valid),
      .ready_i(decides_q),
      .data_o (content),
      .count_o(unused_contents)
  );

  assign reads_d = reads_q + (ReadBits + 1)'(enters) - (ReadBits + 1)'(decides_q);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      reading_q  <= '0;
      reads_q    <= '0;
      may_read_q <= 1'b1;
    end else begin
      reading_q  <= {reading_q[2:0], enters};
      reads_q    <= reads_d;
      // 0 while an order waits (order_waits_q) or is executed (state_q).
      may_read_q <= reads_d != (ReadBits + 1)'(Reads) && !order_valid_i && state_q != StateOrderRead;
    end
  end

  // ---- recent requests: given to the store since the last order of the host, and executed as far as is known ----

  typedef enum logic [1:0] {
    StepFind,
    StepRead,
    StepDecide
  } step_e;

  // By age, the newest one first: its place is next_q - 1.
  logic [Recent-1:0] valid_q, valid_d;
  logic [Recent-1:0] sure_q, sure_d;  // it will be executed, or has been executed
  slot_t [Recent-1:0] slot_q;
  // By place.
  logic [63:0] next_sequences[Recent];  // the numbers after their own
  logic [63:0] tokens[Recent];
  slot_t slots[Recent];
  stored_t replies[Recent];

  step_e step_q;
  count_t first_q, next_q, under_way;
  logic [Recent-1:0] equal_q, equal, is_same;
  logic follows_q, is_recent_q, is_settled;
  session_key_t added_q;  // was added in the cycle before, with the number after its own
  place_t newest_age, age_q, newest, place_q, left_age_q, done_age_q;
  logic [63:0] expected, expected_q, after_q;  // next number of the session; number of the request plus 1
  // Parts of the number of the request that are those of the next one (is_next), and of the last one (is_last).
  localparam int unsigned NumberParts = 16;
  localparam int unsigned PartBits = 64 / NumberParts;
  logic [NumberParts-1:0] is_next_q, is_last_q;
  logic is_zero_q;  // the number of the request is 0
  logic is_outside_q, is_claimed_q, is_single_q;
  logic is_inside_q;  // the host has the slot, and the token of the request is not 0
  logic [1:0] is_token_q;  // by half: the token is that of the session
  stored_t remembered, content_q;  // content_q: the stored reply in the table
  logic adds, done_q, done_writes_q;
  place_t done_place_q;
  session_t done_session_q;
  // A request that was given to the store in the cycle before.
  logic left_refused_q, left_unsure_q, again, pending_q;

  assign under_way = next_q - first_q;

  // The recent requests of the session of the request at the head. They were compared when it came to the head; the one
  // before it may have become the newest one in that cycle.
  always_comb begin
    equal = equal_q;
    if (adds_q) equal = {equal_q[Recent-2:0], follows_q};
    is_same = adds_q ? {equal_q[Recent-2:0] & valid_q[Recent-2:0], follows_q} : equal_q & valid_q;
    newest_age = '0;
    for (int unsigned i = 0; i < Recent; i++) if (is_same[Recent-1-i]) newest_age = place_t'(Recent - 1 - i);
    newest = next_q[RecentBits-1:0] - 1'b1 - age_q;
    is_settled = !is_recent_q || (valid_q[age_q] && sure_q[age_q]);
  end

  always_ff @(posedge clk_i) begin
    equal_q <= equal;
    adds_q <= rst_ni && adds;
    added_q <= '{slot: head_q.slot, token: head_q.token, session_sequence: after_q};
    if (loads) begin
      for (int unsigned i = 0; i < Recent; i++) equal_q[i] <= slot_q[i] == key.slot[SessionBits-1:0];
      follows_q <= head_q.slot[SessionBits-1:0] == key.slot[SessionBits-1:0];
    end
  end

  // ---- decision: the first cycle finds the newest request, the second its sequence number, the third compares ----

  logic is_last, is_next;

  // The request before was refused, or it is not sure that it will be executed.
  assign again = left_refused_q || left_unsure_q;
  assign may_decide = step_q == StepDecide && !again && !pending_q;
  assign expected = is_recent_q ? next_sequences[newest] : content.session_sequence;
  assign is_last = !is_zero_q && is_last_q == '1;
  assign is_next = is_next_q == '1;
  assign adds = take && decided.replay.is_counted;

  always_ff @(posedge clk_i) begin
    if (!rst_ni || loads || again) step_q <= StepFind;
    else if (step_q == StepFind) step_q <= head_valid_q ? StepRead : StepFind;
    else if (step_q == StepRead) begin
      if (!is_settled) step_q <= StepFind;
      else if (content_valid && under_way < count_t'(UnderWay)) step_q <= StepDecide;
    end
    if (step_q == StepFind) begin
      is_recent_q <= is_same != '0;
      age_q <= newest_age;
      after_q <= head_q.session_sequence + 1'b1;
      is_zero_q <= head_q.session_sequence == '0;
    end
    if (step_q == StepRead) begin
      place_q <= newest;
      expected_q <= expected;
      for (int unsigned i = 0; i < NumberParts; i++) begin
        is_next_q[i] <= head_q.session_sequence[PartBits*i+:PartBits] == expected[PartBits*i+:PartBits];
        is_last_q[i] <= after_q[PartBits*i+:PartBits] == expected[PartBits*i+:PartBits];
      end
      is_outside_q <= head_q.slot < sessions_i && (head_q.slot >> SessionBits) != '0;
      is_inside_q <= head_q.slot < sessions_i && head_q.token != '0;
      for (int unsigned i = 0; i < 2; i++) is_token_q[i] <= content.token[32*i+:32] == head_q.token[32*i+:32];
      content_q <= '{sum: content.sum, code: content.code, amount: content.amount};
      is_claimed_q <= content.claimed;
      is_single_q <= content.count == 16'd1;
    end
  end

  always_comb begin
    decided = '0;
    decided.about.outcome = request_i.outcome;
    decided.about.code = request_i.code;
    decided.operation = request_i.operation;
    decided.slot = head_q.slot;
    if (!request_i.is_session) begin
      decided.about.session_sequence = 64'(request_i.operation.number);
    end else begin
      decided.about.is_execute = 1'b1;
      decided.replay.has_sum = 1'b1;
      decided.replay.is_single = is_single_q;
      decided.replay.sum = content_q.sum;
      // Nothing but a repetition uses them.
      decided.about.amount = content_q.amount;
      decided.replay.is_recent = is_recent_q;
      decided.replay.place = place_q;
      if (is_outside_q) begin
        // The table has no place for this session of the host.
        decided.about.outcome = OutcomeHost;
      end else if (!is_inside_q || is_token_q != '1) begin
        decided.about.outcome = OutcomeStatus;
        decided.about.status = 4'(StatusNoSession);
        decided.about.code = CodeUnauthorised;
      end else if (is_claimed_q) begin
        decided.about.outcome = OutcomeHost;
      end else begin
        // The number of the request itself, if it is the next one.
        decided.about.session_sequence = expected_q;
        if (is_last) begin
          decided.about.outcome = OutcomeStored;
          decided.about.code = content_q.code;
        end else if (!is_next) begin
          decided.about.outcome = OutcomeStatus;
          decided.about.status = 4'(StatusSequence);
          decided.about.code = CodeStaleId;
        end else begin
          decided.replay.is_counted = 1'b1;
          decided.replay.is_recent = 1'b0;
          decided.replay.place = next_q[RecentBits-1:0];
        end
      end
    end
    decided.needs_store = decided.about.outcome == OutcomeStore;
  end

  // As ls_skid, with a register of its own for `ready`, on which the decision of the next request depends.
  decided_t out_q, spare_q;
  logic out_valid_q, out_ready_q, spare_valid_q;

  assign out_valid = out_valid_q;
  assign out_ready = out_ready_q;
  assign out = out_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      out_valid_q <= 1'b0;
      spare_valid_q <= 1'b0;
      out_ready_q <= 1'b1;
    end else if (ready_i || !out_valid_q) begin
      out_valid_q <= !out_ready_q || take;
      spare_valid_q <= 1'b0;
      out_ready_q <= 1'b1;
    end else if (take) begin
      spare_valid_q <= 1'b1;
      out_ready_q <= 1'b0;
    end
    if (ready_i || !out_valid_q) out_q <= spare_valid_q ? spare_q : decided;
    if (!spare_valid_q) spare_q <= decided;
  end

  logic [1:0] outs_q;  // requests of sessions that wait there

  assign leaves  = out_valid && ready_i;
  assign valid_o = out_valid;
  // The lease counts when the request goes on, because it may have waited for an order of the host.
  always_comb begin
    decided_o = out;
    if (!is_leased_i && !(out.about.outcome inside {OutcomeForward, OutcomeDrop})) begin
      decided_o.about.outcome = OutcomeNotLeased;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      left_refused_q <= 1'b0;
      left_unsure_q <= 1'b0;
      pending_q <= 1'b0;
      outs_q <= '0;
    end else begin
      left_refused_q <= leaves && out.replay.is_counted && (is_full_i || !is_leased_i);
      left_unsure_q <= leaves && out.replay.is_counted && may_forward_i;
      pending_q <= adds || (pending_q && !(leaves && out.replay.is_counted));
      outs_q <= outs_q + 2'(decides) - 2'(leaves && out.replay.has_sum);
    end
  end

  // ---- requests that leave ----

  logic unused_has_sum;

  assign unused_has_sum = &{1'b0, left_replay_i};
  // The request before it has its reply in the memory when a repetition has been here for a cycle.
  assign remembered = replies[left_replay_i.place];

  always_ff @(posedge clk_i) begin
    done_q <= rst_ni && left_valid_i && left_replay_i.is_counted;
    done_place_q <= left_replay_i.place;
    done_writes_q <= left_writes_i;
    done_session_q <= left_session_i;
    stored_is_same_o <= left_replay_i.is_recent ? left_session_i.sum == remembered.sum :
                        left_replay_i.is_single && left_session_i.sum == left_replay_i.sum;
    stored_code_o <= left_replay_i.is_recent ? remembered.code : left_session_i.code;
    stored_amount_o <= left_replay_i.is_recent ? remembered.amount : left_session_i.amount;
  end

  always_ff @(posedge clk_i) begin
    if (done_q) begin
      replies[done_place_q] <= '{
          sum: done_session_q.sum,
          code: done_session_q.code,
          amount: done_session_q.amount
      };
    end
    if (adds_q) begin
      next_sequences[next_q[RecentBits-1:0]] <= added_q.session_sequence;
      tokens[next_q[RecentBits-1:0]] <= added_q.token;
      slots[next_q[RecentBits-1:0]] <= added_q.slot[SessionBits-1:0];
      slot_q[0] <= added_q.slot[SessionBits-1:0];
      for (int unsigned i = 1; i < Recent; i++) slot_q[i] <= slot_q[i-1];
    end
  end

  // Nothing is added in a cycle in which the request before is found to be refused or unsure.
  place_t newest_place;
  assign newest_place = next_q[RecentBits-1:0] - place_t'(!adds_q);  // of the next cycle
  always_ff @(posedge clk_i) begin
    left_age_q <= newest_place - out.replay.place;
    done_age_q <= newest_place - left_replay_i.place;
  end
  always_comb begin
    valid_d = valid_q;
    sure_d  = sure_q;
    for (int unsigned i = 0; i < Recent; i++) begin
      if (left_refused_q && left_age_q == place_t'(i)) valid_d[i] = 1'b0;
      if (left_unsure_q && left_age_q == place_t'(i)) sure_d[i] = 1'b0;
      if (done_q && done_age_q == place_t'(i)) begin
        sure_d[i] = 1'b1;
        if (!done_writes_q) valid_d[i] = 1'b0;
      end
    end
    if (adds_q) begin
      valid_d = {valid_d[Recent-2:0], 1'b1};
      sure_d  = {sure_d[Recent-2:0], 1'b1};
    end
    if (write && state_q == StateOrderWrite) valid_d = '0;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      first_q <= '0;
      next_q  <= '0;
      valid_q <= '0;
    end else begin
      if (done_q) first_q <= first_q + 1'b1;
      if (adds_q) next_q <= next_q + 1'b1;
      valid_q <= valid_d;
    end
    sure_q <= sure_d;
  end

  // ---- writes, and orders of the host ----

  logic order_known, is_quiet_q;

  assign order_known = (order_q.slot >> SessionBits) == '0;
  // While an order waits, no request of a session comes in, so what was true a cycle ago still is.
  always_ff @(posedge clk_i) begin
    is_quiet_q <= rst_ni && order_waits_q && state_q == StateIdle && !response_valid_o && reads_q == '0 &&
                  first_q == next_q && outs_q == '0;
  end
  assign order_ready_o = is_quiet_q && order_waits_q && state_q == StateIdle;
  assign starts_order = order_valid_i && order_ready_o;

  always_comb begin
    if (state_q == StateOrderWrite) begin
      write = order_known && (order_q.writes || order_q.writes_claim);
      written_slot = order_q.slot[SessionBits-1:0];
      written = order_q.writes ? order_q.session : read;
      written.claimed = order_q.writes_claim ? order_q.session.claimed : read.claimed;
    end else begin
      write = done_q && done_writes_q;
      written_slot = slots[done_place_q];
      written = done_session_q;
      // The request was executed, so its token is that of the session, and no claim came since.
      written.token = tokens[done_place_q];
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
    order_waits_q <= rst_ni && order_valid_i;
    if (state_q == StateIdle) order_q <= order_i;
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
      assert (!enters || keys_ready) else $error("a request was lost");
      assert (!reading_q[3] || contents_ready) else $error("the contents of a session were lost");
    end
  end
`endif

endmodule
