// SPDX-License-Identifier: Apache-2.0
//
// Bounded proof of ls_transfer_session against a reference: sessions in which each request takes effect at once, in
// order, when it leaves. The contents of the sessions are free at the beginning.
// - Requests go on in the order in which they came, each of them once.
// - A request is executed exactly if its number is the next one of its session as all requests before it have left it;
//   so a number is executed at most once. The others are refused, or forwarded, as the XDP program does it.
// - A repetition has the code and the amount of the request that was executed, if their checksums are equal, and is
//   refused otherwise.
// - The host reads a session as all requests before have left it: when an order begins, each request that waits to leave
//   is a repetition or was refused. What these are answered is compared with the sessions before the order only if they
//   leave before it.
// This holds whatever requests have no place for their record, lose the lease, or are forwarded because of claims, and
// after whatever time they leave.
//
// Narrow: two sessions; two bits of a token, three of a number, two of a checksum, a code and an amount; eight requests
// are remembered, and four under way.
// Assumed: a request is forwarded only if the store said that it may be.

module ls_transfer_session_proof
  import ls_pkg::*;
  import ls_transfer_pkg::*;
  import ls_transfer_packet_pkg::*;
#(
    parameter bit OneSession = 1'b0  // all requests are of one session, and the host gives no orders
) (
    input logic clk_i,
    input logic rst_ni,

    input logic is_leased_i,
    input logic valid_i,
    input logic is_session_i,
    input logic [1:0] sum_i,
    input logic key_valid_i,
    input logic [1:0] slot_i,
    input logic [1:0] token_i,
    input logic [2:0] number_i,
    input logic ready_i,
    input logic is_full_i,
    input logic may_forward_i,

    input logic goes_i,
    input logic forwards_i,
    input logic [1:0] code_i,
    input logic [1:0] amount_i,

    input logic order_valid_i,
    input logic [1:0] order_slot_i,
    input logic order_writes_i,
    input logic order_writes_claim_i,
    input logic [12:0] order_session_i,
    input logic response_ready_i
);

  localparam int unsigned Sessions = 2;
  localparam int unsigned Queue = 8;

  typedef struct packed {
    outcome_e outcome;
    logic [3:0] status;
    logic [63:0] session_sequence;
    replay_t replay;
    logic is_full;
    logic may_forward;
    logic [31:0] slot;
    logic [63:0] token;
    logic [2:0] number;
    logic [1:0] sum;
    code_e code;
    amount_t amount;
  } issued_t;

  function automatic session_t session_of(input logic [12:0] bits);
    session_t session;
    session = '0;
    session.claimed = bits[0];
    session.count = 16'(bits[2:1]);
    session.token = 64'(bits[4:3]);
    session.session_sequence = 64'(bits[7:5]);
    session.sum = 64'(bits[9:8]);
    session.code = code_e'(4'(bits[11:10]));
    session.amount = amount_t'(bits[12]);
    return session;
  endfunction

  request_t request;
  session_key_t key;
  decided_t decided;
  session_order_t order, response;
  session_t left_session;
  logic key_ready, ready, valid, left_valid, left_ready, left_writes, same, order_ready, response_valid;
  logic known;
  code_e stored_code;
  amount_t stored_amount;
  issued_t issued;
  issued_t queue_q[Queue];
  logic [$clog2(Queue):0] read_q, write_q;
  // Keys of requests that have not gone on, by number: those that wait for their decision, and two that leave.
  session_key_t keys_q[Queue];
  logic [$clog2(Queue):0] keys_read_q, keys_write_q;
  session_key_t key_out;
  logic [1:0] settled_q;
  logic [31:0] in_q, out_q;
  logic going_q, is_empty, is_first_q, accepts, leaves, order_waits_q, starts_order, waits_counted;
  logic [$clog2(Queue):0] before_order_q;  // requests in the queue that are older than the last order
  // For the task `cover`: a request was executed, and a request that was the next one of its session lost the lease.
  logic executed_q, lost_q;
  session_order_t order_q;  // of the cycle before

  always_comb begin
    request = '0;
    request.outcome = OutcomeStore;
    request.is_session = is_session_i;
    // Fields that pass unchanged: the place of the request in their order, and what its checksum will be.
    {request.operation.source, request.operation.destination} = 4'(in_q);
    request.operation.number = sum_i;
    key.slot = 32'(slot_i);
    key.token = 64'(token_i);
    key.session_sequence = 64'(number_i);
    order = '0;
    order.slot = 32'(order_slot_i);
    order.writes = order_writes_i;
    order.writes_claim = order_writes_claim_i;
    order.session = session_of(order_session_i);
  end

  assign is_empty = read_q == write_q;
  assign issued = queue_q[read_q[$clog2(Queue)-1:0]];
  assign left_valid = !is_empty && (goes_i || going_q);
  assign left_writes = issued.outcome == OutcomeStore && !issued.is_full && !(issued.may_forward && forwards_i);
  // The reply of a repetition is read in its third cycle. In the core it leaves one cycle later; that it leaves counts
  // for nothing but new requests.
  assign left_ready = issued.outcome != OutcomeStored || settled_q[1];
  assign leaves = left_valid && left_ready;
  assign starts_order = order_valid_i && order_ready;
  assign accepts = valid && ready_i && decided.replay.has_sum;
  assign key_out = keys_q[keys_read_q[$clog2(Queue)-1:0]];

  always_comb begin
    waits_counted = 1'b0;
    for (int unsigned i = 0; i < Queue; i++) begin
      if (($clog2(Queue) + 1)'(i) < write_q - read_q &&
          queue_q[3'(read_q) + 3'(i)].replay.is_counted) waits_counted = 1'b1;
    end
  end

  always_comb begin
    left_session = '0;
    left_session.count = 16'd1;
    left_session.session_sequence = 64'(issued.number);
    left_session.sum = 64'(issued.sum);
    left_session.code = issued.outcome == OutcomeStore ? code_e'(4'(code_i)) : issued.code;
    left_session.amount = issued.outcome == OutcomeStore ? amount_t'(amount_i) : issued.amount;
  end

  ls_transfer_session #(
      .SessionBits(1)
  ) dut (
      .clk_i,
      .rst_ni,
      .sessions_i(RegisterTransferSessionsBits'(Sessions)),
      .is_leased_i,
      .valid_i,
      .ready_o(ready),
      .request_i(request),
      .key_valid_i,
      .key_ready_o(key_ready),
      .key_i(key),
      .valid_o(valid),
      .ready_i,
      .decided_o(decided),
      .is_full_i,
      .may_forward_i,
      .left_valid_i(leaves),
      .left_replay_i(issued.replay),
      .left_writes_i(left_writes),
      .left_session_i(left_session),
      .stored_is_same_o(same),
      .stored_code_o(stored_code),
      .stored_amount_o(stored_amount),
      .order_valid_i,
      .order_ready_o(order_ready),
      .order_i(order),
      .response_valid_o(response_valid),
      .response_ready_i,
      .response_known_o(known),
      .response_o(response)
  );

  // ---- reference ----

  session_t [Sessions-1:0] sessions_q, content;
  session_t session, after, wanted;
  logic was_known;

  assign session = sessions_q[issued.slot[0]];
  // An executed request changes all but token and claim.
  always_comb begin
    after = left_session;
    after.token = session.token;
    after.claimed = session.claimed;
  end
  for (genvar i = 0; i < int'(Sessions); i++) begin : gen_content
    assign content[i] = dut.u_table.memory[i];
  end

  always_ff @(posedge clk_i) begin
    is_first_q <= 1'b0;
    order_waits_q <= rst_ni && order_valid_i && !order_ready;
    order_q <= order;
    going_q <= rst_ni && left_valid && !left_ready;
    settled_q <= rst_ni && left_valid && !left_ready ? {settled_q[0], 1'b1} : '0;
    if (key_valid_i && key_ready) keys_q[keys_write_q[$clog2(Queue)-1:0]] <= key;
    if (!rst_ni) begin
      read_q  <= '0;
      write_q <= '0;
      keys_read_q <= '0;
      keys_write_q <= '0;
      in_q <= '0;
      out_q <= '0;
      before_order_q <= '0;
      executed_q <= 1'b0;
      lost_q <= 1'b0;
      sessions_q <= content;
    end else begin
      in_q  <= in_q + 32'(valid_i && ready);
      out_q <= out_q + 32'(valid && ready_i);
      if (key_valid_i && key_ready) keys_write_q <= keys_write_q + 1'b1;
      if (accepts) begin
        queue_q[write_q[$clog2(Queue)-1:0]] <= '{
            outcome: decided.about.outcome,
            status: decided.about.status,
            session_sequence: decided.about.session_sequence,
            replay: decided.replay,
            is_full: is_full_i,
            may_forward: may_forward_i,
            slot: key_out.slot,
            token: key_out.token,
            number: 3'(key_out.session_sequence),
            sum: decided.operation.number,
            code: decided.about.code,
            amount: decided.about.amount
        };
        write_q <= write_q + 1'b1;
        keys_read_q <= keys_read_q + 1'b1;
      end
      if (leaves) begin
        read_q <= read_q + 1'b1;
        if (left_writes) sessions_q[issued.slot[0]] <= after;
      end
      if (leaves && left_writes) executed_q <= 1'b1;
      if (accepts && decided.replay.is_counted && !is_leased_i) lost_q <= 1'b1;
      if (starts_order) before_order_q <= write_q - read_q - ($clog2(Queue) + 1)'(leaves);
      else if (leaves && before_order_q != '0) before_order_q <= before_order_q - 1'b1;
      if (starts_order) begin
        wanted <= sessions_q[order.slot[0]];
        was_known <= order.slot < 32'(Sessions);
        if (order.slot < 32'(Sessions)) begin
          if (order.writes) begin
            sessions_q[order.slot[0]] <= order.session;
            sessions_q[order.slot[0]].claimed <= sessions_q[order.slot[0]].claimed;
          end
          if (order.writes_claim) sessions_q[order.slot[0]].claimed <= order.session.claimed;
        end
      end
    end
  end

  initial is_first_q = 1'b1;

  always_comb begin
    session_t one;
    one = '0;
    assume (rst_ni != is_first_q);
    if (is_first_q) begin
      assume (!dut.write);  // registers have no value yet
      for (int unsigned i = 0; i < Sessions; i++) begin
        one = content[i];
        assume (one == session_of({
                one.amount[0],
                one.code[1:0],
                2'(one.sum),
                one.session_sequence[2:0],
                one.token[1:0],
                one.count[1:0],
                one.claimed
            }));
      end
    end
    assume (!ready_i || 32'(write_q - read_q) < Queue);
    if (OneSession) begin
      assume (is_session_i && slot_i == '0 && token_i == 2'd1 && !order_valid_i && is_leased_i);
      if (is_first_q) assume (content[0].token == 64'd1 && !content[0].claimed);
    end
    if (order_waits_q && order_valid_i) assume (order == order_q);
  end

  always_comb begin
    if (rst_ni && !is_first_q) begin
      if (valid) begin
        assert ({decided.operation.source, decided.operation.destination} == 4'(out_q));
        assert (decided.about.outcome != OutcomeStore || (decided.needs_store && is_leased_i));
        // Not sooner than its key.
        assert (!decided.replay.has_sum || (keys_read_q != keys_write_q && decided.slot == key_out.slot));
      end
      assert (32'(keys_write_q - keys_read_q) <= Queue);
      if (starts_order) assert (!waits_counted && !accepts);
      if (response_valid) begin
        assert (known == was_known);
        if (known) assert (response.session == wanted);
      end
      if (leaves && issued.outcome != OutcomeNotLeased && before_order_q == '0) begin
        if (issued.slot >= 32'(Sessions) || issued.token == '0 || issued.token != session.token) begin
          assert (issued.outcome == OutcomeStatus && issued.status == 4'(StatusNoSession));
        end else if (session.claimed) begin
          assert (issued.outcome == OutcomeHost);
        end else if (session.session_sequence != '0 && 64'(issued.number) == session.session_sequence) begin
          assert (issued.outcome == OutcomeStored);
          assert (same == (session.sum == 64'(issued.sum) && session.count == 16'd1));
          if (same) assert (stored_code == session.code && stored_amount == session.amount);
        end else if (64'(issued.number) != session.session_sequence + 1'b1) begin
          assert (issued.outcome == OutcomeStatus && issued.status == 4'(StatusSequence));
          assert (issued.session_sequence == session.session_sequence + 1'b1);
        end else begin
          assert (issued.outcome == OutcomeStore);
        end
      end
    end
  end

  // What the depth of the proof must reach.
  always_comb begin
    if (rst_ni && !is_first_q) begin
      cover (leaves && issued.outcome == OutcomeStored && same && executed_q);
      cover (leaves && left_writes && lost_q);
      cover (response_valid && known && response.session == wanted && executed_q);
      cover (starts_order && !is_empty);
    end
  end

endmodule
