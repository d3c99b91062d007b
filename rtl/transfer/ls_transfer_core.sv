// SPDX-License-Identifier: Apache-2.0
//
// NIC pipeline with the service `transfer`: executes requests from the network on the accounts of its store and answers
// them, and passes all other frames to the host unchanged and in order.
//
// Interface: AXI-Stream of 512 bits from the network (s_axis), to the network (m_axis_network) and to the host
// (m_axis_host); byte 0 of a frame is in tdata[7:0], and tkeep is all ones except in the last beat. Records of
// operations leave by m_axis_record, two beats each, and responses to the host's orders by m_axis_response, one beat
// each; all their bytes are valid (spec/rtl.toml). Commands of the host come by s_command. now_ns_i is the clock of the
// leases; it may be up to a few cycles late. A frame of more than FrameBeatsMax beats goes to the host unchanged.
// The input is stopped when an output does not accept frames, and when requests come faster than the store executes
// them, one every two cycles, or repetitions of requests of sessions faster than one every four cycles. A record stream
// that stops makes operations `busy` and stops nothing. A response stream that stops holds back the commands after it.
// Latency: from the last beat in to the first beat out, 51 or 52 cycles if the store answers, 57 or 58 if it answers a
// request of a session, 41 for a repetition, 38 or 39 for other requests of sessions, and 32 or 33 for all others.
// Throughput: one beat in each cycle, one request to the store every two cycles, one repetition every four cycles.
// Counters: the counters of the XDP program, 64 bits each, in the order of spec/transfer.toml and spec/common.toml.
// rst_ni must be 0 for at least ten cycles, because the parts of the core get it one after the other.

module ls_transfer_core
  import ls_pkg::*;
  import ls_pipeline_pkg::*;
  import ls_transfer_pkg::*;
  import ls_transfer_packet_pkg::*;
#(
    parameter int unsigned BucketBits = 10,  // log2 of the number of buckets of four accounts
    parameter int unsigned SessionBits = 10,  // log2 of the number of session slots
    parameter int unsigned RecordDepth = 64,  // records that wait for the host; a power of two
    parameter int unsigned FrameBeatsMax = 24,
    parameter int unsigned FrameFifoBeats = 512,  // at least 4 * FrameBeatsMax
    parameter int unsigned Decisions = 64,  // frames between input and output, more than the latency in cycles
    parameter Style = "block"  // of the memories of accounts
) (
    input logic clk_i,
    input logic rst_ni,

    input logic [63:0] now_ns_i,

    input logic s_axis_tvalid,
    output logic s_axis_tready,
    input logic [511:0] s_axis_tdata,
    input logic [63:0] s_axis_tkeep,
    input logic s_axis_tlast,

    output logic m_axis_network_tvalid,
    input logic m_axis_network_tready,
    output logic [511:0] m_axis_network_tdata,
    output logic [63:0] m_axis_network_tkeep,
    output logic m_axis_network_tlast,

    output logic m_axis_host_tvalid,
    input logic m_axis_host_tready,
    output logic [511:0] m_axis_host_tdata,
    output logic [63:0] m_axis_host_tkeep,
    output logic m_axis_host_tlast,

    output logic m_axis_record_tvalid,
    input logic m_axis_record_tready,
    output logic [511:0] m_axis_record_tdata,
    output logic m_axis_record_tlast,

    input logic s_command_tvalid,
    output logic s_command_tready,
    input logic [511:0] s_command_tdata,
    output logic [31:0] barrier_o,

    output logic m_axis_response_tvalid,
    input logic m_axis_response_tready,
    output logic [511:0] m_axis_response_tdata,
    output logic m_axis_response_tlast,

    output logic [TransferCounters-1:0][63:0] counters_o,
    output logic [DropReasons-1:0][63:0] drops_o,

    output logic frame_passed_o,
    output verdict_e passed_verdict_o
);

  // Resets of the parts, in the order of the frames; see ls_spv_core.
  logic [8:0] rst_nq;
  always_ff @(posedge clk_i) rst_nq <= {rst_nq[7:0], rst_ni};

  // ---- input ----

  beat_t frame_beat, unused_beat;
  logic frame_valid, frame_ready, window_valid, decision_taken, unused_valid, unused_begins, unused_patch;
  window_t window;

  ls_input #(
      .FrameBeatsMax(FrameBeatsMax),
      .FrameFifoBeats(FrameFifoBeats),
      .Frames(Decisions)
  ) u_input (
      .clk_i,
      .rst_ni(rst_nq[0]),
      .s_axis_tvalid,
      .s_axis_tready,
      .s_axis_tdata,
      .s_axis_tkeep,
      .s_axis_tlast,
      .beat_valid_o(unused_valid),
      .beat_o(unused_beat),
      .begins_o(unused_begins),
      .window_valid_o(window_valid),
      .window_o(window),
      .frame_valid_o(frame_valid),
      .frame_ready_i(frame_ready),
      .frame_o(frame_beat),
      .decision_taken_i(decision_taken)
  );

  // ---- commands ----

  endpoint_t endpoint;
  control_t control;
  logic order_valid, order_ready, session_order_valid, session_order_ready, may_order_session_q;
  order_t order;
  session_order_t session_order;
  logic [15:0] accepted_q, passed_q;

  ls_transfer_commands u_commands (
      .clk_i,
      .rst_ni(rst_nq[1]),
      .s_command_valid_i(s_command_tvalid),
      .s_command_ready_o(s_command_tready),
      .s_command_i(command_t'(s_command_tdata)),
      .accepted_i(accepted_q),
      .passed_i(passed_q),
      .barrier_o,
      .endpoint_o(endpoint),
      .control_o(control),
      .order_valid_o(order_valid),
      .order_ready_i(order_ready),
      .order_o(order),
      .session_order_valid_o(session_order_valid),
      .session_order_ready_i(session_order_ready && may_order_session_q),
      .session_order_o(session_order)
  );

  // ---- requests ----

  logic datagram_valid, request_valid, waiting_valid, waiting_ready, queued_valid, queued_ready, requests_ready;
  logic waiting_key_valid, waiting_key_ready, key_valid, key_ready, keys_ready;
  logic all_carried_ready, next_carried_valid, next_carried_ready, carried_valid, leaves, leaves_q;
  datagram_t datagram;
  request_t request, waiting, queued;
  session_key_t request_key, waiting_key, key;
  carried_t request_carried, next_carried, carried;

  // An ECP5 has no registers left for the delay line of this module.
  ls_classify #(
      .RamCycles(5)
  ) u_classify (
      .clk_i,
      .rst_ni(rst_nq[1]),
      .endpoint_i(endpoint),
      .valid_i(window_valid),
      .window_i(window),
      .valid_o(datagram_valid),
      .datagram_o(datagram)
  );

  ls_transfer_request u_request (
      .clk_i,
      .rst_ni(rst_nq[1]),
      .control_i(control),
      .valid_i(datagram_valid),
      .datagram_i(datagram),
      .valid_o(request_valid),
      .request_o(request),
      .key_o(request_key),
      .carried_o(request_carried)
  );

  // All frames that are under way have a place in these queues, so nothing before them waits. An entry of u_carried is
  // taken in the cycle after its request has left (leaves_q). It is at the output by then, because the request passes
  // two queues and the sessions, and the entry one queue only.
  ls_queue #(
      .T(carried_t),
      .Depth(Decisions)
  ) u_carried (
      .clk_i,
      .rst_ni(rst_nq[2]),
      .valid_i(request_valid),
      .ready_o(all_carried_ready),
      .data_i (request_carried),
      .valid_o(next_carried_valid),
      .ready_i(next_carried_ready),
      .data_o (next_carried)
  );

  ls_skid #(
      .T(carried_t)
  ) u_next_carried (
      .clk_i,
      .rst_ni(rst_nq[2]),
      .valid_i(next_carried_valid),
      .ready_o(next_carried_ready),
      .data_i (next_carried),
      .valid_o(carried_valid),
      .ready_i(leaves_q),
      .data_o (carried)
  );

  ls_queue #(
      .T(request_t),
      .Depth(Decisions)
  ) u_requests (
      .clk_i,
      .rst_ni(rst_nq[2]),
      .valid_i(request_valid),
      .ready_o(requests_ready),
      .data_i (request),
      .valid_o(waiting_valid),
      .ready_i(waiting_ready),
      .data_o (waiting)
  );

  ls_skid #(
      .T(request_t)
  ) u_queued (
      .clk_i,
      .rst_ni(rst_nq[2]),
      .valid_i(waiting_valid),
      .ready_o(waiting_ready),
      .data_i (waiting),
      .valid_o(queued_valid),
      .ready_i(queued_ready),
      .data_o (queued)
  );

  // Keys of the requests of sessions.
  ls_queue #(
      .T(session_key_t),
      .Depth(Decisions)
  ) u_keys (
      .clk_i,
      .rst_ni(rst_nq[2]),
      .valid_i(request_valid && request.is_session),
      .ready_o(keys_ready),
      .data_i (request_key),
      .valid_o(waiting_key_valid),
      .ready_i(waiting_key_ready),
      .data_o (waiting_key)
  );

  ls_skid #(
      .T(session_key_t)
  ) u_next_key (
      .clk_i,
      .rst_ni(rst_nq[2]),
      .valid_i(waiting_key_valid),
      .ready_o(waiting_key_ready),
      .data_i (waiting_key),
      .valid_o(key_valid),
      .ready_i(key_ready),
      .data_o (key)
  );

  // ---- sessions ----

  // Cycles of ls_transfer_request.
  localparam int unsigned RequestCycles = 6;
  localparam int unsigned OperationAt = 8 * (NativeHeaderBytes + ExecuteHeadBytes);

  logic next_sum_valid, next_sum_ready, decided_valid, decided_ready;
  logic left_valid, left_writes, is_store_full, may_forward, stored_is_same;
  code_e stored_code;
  amount_t stored_amount;
  logic session_response_valid, session_response_ready, session_response_known;
  logic [63:0] next_sum, sum;
  logic is_leased_q;
  decided_t decided;

  // Request that the store has, or that waits for requests in the store before it.
  typedef struct packed {
    about_t about;
    replay_t replay;
    logic needs_result;
    // For its record.
    logic [31:0] slot;
    logic [3:0] command;
  } issued_t;

  issued_t next_issued, issued;

  always_ff @(posedge clk_i) is_leased_q <= rst_nq[2] && now_ns_i < control.lease_until_ns;
  session_t session_left;
  session_order_t session_response;

  ls_transfer_sum #(
      .Depth(Decisions),
      .Lead (RequestCycles)
  ) u_sum (
      .clk_i,
      .rst_ni(rst_nq[2]),
      .valid_i(request_valid && request.is_session),
      .words_i(datagram.payload[OperationAt+:8*OperationBytes]),
      .valid_o(next_sum_valid),
      .ready_i(next_sum_ready),
      .sum_o(next_sum)
  );

  ls_transfer_session #(
      .SessionBits(SessionBits),
      .Style(Style)
  ) u_session (
      .clk_i,
      .rst_ni(rst_nq[2]),
      .sessions_i(control.sessions),
      .is_leased_i(is_leased_q),
      .valid_i(queued_valid),
      .ready_o(queued_ready),
      .request_i(queued),
      .key_valid_i(key_valid),
      .key_ready_o(key_ready),
      .key_i(key),
      .valid_o(decided_valid),
      .ready_i(decided_ready),
      .decided_o(decided),
      .is_full_i(is_store_full),
      .may_forward_i(may_forward),
      .left_valid_i(left_valid),
      .left_replay_i(issued.replay),
      .left_writes_i(left_writes),
      .left_session_i(session_left),
      .stored_is_same_o(stored_is_same),
      .stored_code_o(stored_code),
      .stored_amount_o(stored_amount),
      .order_valid_i(session_order_valid && may_order_session_q),
      .order_ready_o(session_order_ready),
      .order_i(session_order),
      .response_valid_o(session_response_valid),
      .response_ready_i(session_response_ready),
      .response_known_o(session_response_known),
      .response_o(session_response)
  );

  // ---- store ----

  logic operation_valid, operation_ready, next_result_valid, next_result_ready;
  logic record_valid, record_ready, record_left;
  logic issues, issues_ready, next_issued_valid, issued_valid;
  result_t next_result, result;
  record_t record;
  response_t response;
  logic response_valid, response_ready;
  logic [5:0] orders_d, orders_q;  // orders of the store without a response
  logic [63:0] records_q;  // records since reset
  logic [63:0] session_records_q;  // of these, before the order about a session that has the response
  extra_t extra, extra_q;
  logic is_execute_q, recorded_q;

  // A request that would need the store goes on when the store could take it, also without a lease: `ready` enables
  // hundreds of registers, so it depends on as little as possible.
  assign decided_ready = !decided.needs_store || operation_ready;
  assign issues = decided_valid && decided_ready;
  assign operation_valid = decided_valid && decided.about.outcome == OutcomeStore;

  ls_transfer_store #(
      .BucketBits(BucketBits),
      .Style(Style),
      .RecordDepth(RecordDepth)
  ) u_store (
      .clk_i,
      .rst_ni(rst_nq[3]),
      .hash_key_i(control.key),
      .operation_valid_i(operation_valid),
      .operation_ready_o(operation_ready),
      .operation_i(decided.operation),
      .result_valid_o(next_result_valid),
      .result_ready_i(next_result_ready),
      .result_o(next_result),
      .record_valid_o(record_valid),
      .record_ready_i(record_ready),
      .record_o(record),
      .record_left_i(record_left),
      .order_valid_i(order_valid),
      .order_ready_o(order_ready),
      .order_i(order),
      .response_valid_o(response_valid),
      .response_ready_i(response_ready),
      .response_o(response),
      .is_full_o(is_store_full),
      .may_forward_o(may_forward)
  );

  // The oldest request comes into registers with its result and its checksum, and leaves in the next cycle. A
  // repetition leaves three cycles later: the sessions compare it with the request before it, and then its stored reply
  // comes into the registers, too. moves_q enables the registers.
  logic moves_q, joins;
  about_t repeated;
  logic [1:0] waited_q;  // cycles for which a repetition has waited, as ones

  // Requests in the order of the frames; some wait for their result. All frames that are under way have a place.
  ls_queue #(
      .T(issued_t),
      .Depth(Decisions)
  ) u_issued (
      .clk_i,
      .rst_ni(rst_nq[4]),
      .valid_i(issues),
      .ready_o(issues_ready),
      .data_i ('{
          about: decided.about,
          replay: decided.replay,
          needs_result: decided.about.outcome == OutcomeStore,
          slot: decided.slot,
          command: decided.operation.command
      }),
      .valid_o(next_issued_valid),
      .ready_i(joins),
      .data_o (next_issued)
  );

  assign joins = next_issued_valid && moves_q && (!next_issued.needs_result || next_result_valid) &&
                 (!next_issued.replay.has_sum || next_sum_valid);
  assign next_result_ready = joins && next_issued.needs_result;
  assign next_sum_ready = joins && next_issued.replay.has_sum;

  always_ff @(posedge clk_i) begin
    if (!rst_nq[4]) begin
      issued_valid <= 1'b0;
      moves_q <= 1'b1;
      waited_q <= '0;
    end else if (moves_q) begin
      issued_valid <= joins;
      moves_q <= !(joins && next_issued.about.outcome == OutcomeStored);
      waited_q <= '0;
    end else begin
      moves_q <= waited_q[1];
      waited_q <= {waited_q[0], 1'b1};
    end
    if (moves_q) begin
      issued <= next_issued;
      result <= next_result;
      sum <= next_sum;
    end else if (waited_q[1]) begin
      issued.about <= repeated;
    end
  end

  // A repetition comes with the next number of its session. When it has waited, own_sequence_q is its own number.
  // The high half is computed one cycle after the low half.
  logic [63:0] own_sequence_q;
  logic [31:0] own_low_q, next_high_q;
  logic is_borrowed_q;
  always_ff @(posedge clk_i) begin
    {is_borrowed_q, own_low_q} <= {1'b0, issued.about.session_sequence[31:0]} - 1'b1;
    next_high_q <= issued.about.session_sequence[63:32];
    own_sequence_q <= {next_high_q - 32'(is_borrowed_q), own_low_q};
  end
  always_comb begin
    repeated = issued.about;
    if (stored_is_same) begin
      repeated.code = stored_code;
      repeated.amount = stored_amount;
      repeated.session_sequence = own_sequence_q;
    end else begin
      repeated.outcome = OutcomeStatus;
      repeated.status = 4'(StatusReused);
      repeated.code = CodeIdReused;
    end
  end

  assign leaves = issued_valid && moves_q;
  assign left_valid = leaves && issued.replay.has_sum;
  // The session of an executed request; claim and token stay. A repetition has what its slot stored.
  assign left_writes = issued.needs_result && !result.forward && !result.is_full;
  always_comb begin
    session_left = '0;
    session_left.count = 16'd1;
    session_left.session_sequence = issued.about.session_sequence;
    session_left.sum = sum;
    session_left.code = issued.needs_result ? result.code : issued.about.code;
    session_left.amount = issued.needs_result ? result.balance : issued.about.amount;
  end
  always_comb begin
    extra = extra_q;
    if (is_execute_q) begin
      extra.command = carried.packet.command;
      extra.nonce = carried.packet.nonce;
      extra.timestamp = carried.packet.timestamp;
      extra.uuid = carried.packet.uuid;
    end
  end

  always_ff @(posedge clk_i) begin
    leaves_q <= rst_nq[4] && leaves;
    recorded_q <= rst_nq[4] && leaves && issued.needs_result && result.recorded;
    is_execute_q <= issued.about.is_execute;
    extra_q <= '{
        time_ns: now_ns_i,
        slot: issued.about.is_execute ? issued.slot : NoSession,
        command: 8'(issued.command),
        session_sequence: issued.about.session_sequence,
        sum: issued.replay.has_sum ? sum : '0,
        default: '0
    };
  end

  ls_transfer_records #(
      .Depth(RecordDepth)
  ) u_records (
      .clk_i,
      .rst_ni(rst_nq[4]),
      .extra_push_i(recorded_q),
      .extra_i(extra),
      .record_valid_i(record_valid),
      .record_ready_o(record_ready),
      .record_i(record),
      .record_left_o(record_left),
      .m_axis_tvalid(m_axis_record_tvalid),
      .m_axis_tready(m_axis_record_tready),
      .m_axis_tdata(m_axis_record_tdata),
      .m_axis_tlast(m_axis_record_tlast)
  );

  // ---- responses ----

  transfer_response_beats_t response_beat;
  transfer_session_response_beats_t session_beat;

  always_comb begin
    response_beat.index = response.user;
    response_beat.code = {4'd0, response.account.last.code, 4'd0, response.account.last.command,
                          8'(response.account.frozen) * 8'(TransferCellFrozen) +
                          8'(response.account.claimed) * 8'(TransferCellClaimed), 8'(response.code)};
    response_beat.records = response.records;
    response_beat.balance = response.account.balance;
    response_beat.held_out = response.account.held_out;
    response_beat.held_in = response.account.held_in;
    response_beat.version = response.account.version;
    response_beat.last_id = response.account.last.number;
    response_beat.last_amount = response.account.last.amount;
    response_beat.last_reply = response.account.last.reply;
    response_beat.last_destination = response.account.last.destination;
  end
  always_comb begin
    session_beat.index = session_response.index;
    session_beat.code = {session_response.session.count,
                         8'(session_response.session.claimed) * 8'(TransferCellClaimed),
                         session_response_known ? 8'(StatusOk) : 8'(StatusNoSession)};
    session_beat.operation_code = 32'(session_response.session.code);
    session_beat.reserved = '0;
    session_beat.records = session_records_q;
    session_beat.token = session_response.session.token;
    session_beat.session_sequence = session_response.session.session_sequence;
    session_beat.sum = session_response.session.sum;
    session_beat.amount = session_response.session.amount;
    session_beat.reserved_2 = '0;
  end
  // Responses keep the order of the commands: an order about a session begins when the store has answered all others
  // and the response to the one before has been taken, and its response comes before those of later orders.
  assign orders_d = orders_q + 6'(order_valid && order_ready) - 6'(response_valid && response_ready);
  assign m_axis_response_tvalid = response_valid || session_response_valid;
  assign session_response_ready = m_axis_response_tready;
  assign response_ready = m_axis_response_tready && !session_response_valid;
  assign m_axis_response_tdata = session_response_valid ? session_beat : response_beat;
  assign m_axis_response_tlast = 1'b1;

  // ---- decision ----

  logic decision_valid;
  logic [TransferCounters-1:0] counts;
  decision_t decision;
  drop_e reason;

  ls_transfer_reply u_reply (
      .clk_i,
      .rst_ni(rst_nq[5]),
      .mode_i(control.mode),
      .valid_i(leaves),
      .about_i(issued.about),
      .form_i(carried.form),
      .result_i(result),
      .valid_o(decision_valid),
      .decision_o(decision),
      .reason_o(reason),
      .counts_o(counts)
  );

  ls_output #(
      .Decisions(Decisions)
  ) u_output (
      .clk_i,
      .rst_ni(rst_nq[5]),
      .decision_valid_i(decision_valid),
      .decision_i(decision),
      .decision_taken_o(decision_taken),
      .frame_valid_i(frame_valid),
      .frame_ready_o(frame_ready),
      .frame_i(frame_beat),
      .patch_valid_i(1'b0),
      .patch_ready_o(unused_patch),
      .patch_i('0),
      .m_axis_network_tvalid,
      .m_axis_network_tready,
      .m_axis_network_tdata,
      .m_axis_network_tkeep,
      .m_axis_network_tlast,
      .m_axis_host_tvalid,
      .m_axis_host_tready,
      .m_axis_host_tdata,
      .m_axis_host_tkeep,
      .m_axis_host_tlast,
      .frame_passed_o,
      .passed_verdict_o
  );

  // ---- counters ----

  // What the counters count, one and two cycles later, because they may be far away.
  logic is_recorded_q, is_counted_q, has_passed_q;
  logic [TransferCounters-1:0] chosen_counts_q, counts_q;
  logic [DropReasons-1:0] chosen_drops_q, drops_q;

  always_ff @(posedge clk_i) begin
    for (int unsigned i = 0; i < TransferCounters; i++) chosen_counts_q[i] <= rst_nq[6] && decision_valid && counts[i];
    for (int unsigned i = 0; i < DropReasons; i++) begin
      chosen_drops_q[i] <= rst_nq[6] && decision_valid && decision.verdict == VerdictDrop && 32'(reason) == i;
    end
    is_recorded_q <= recorded_q;
    counts_q <= chosen_counts_q;
    drops_q <= chosen_drops_q;
  end

  // Their reset ends before the first frame or order comes in.
  always_ff @(posedge clk_i) begin
    if (!rst_nq[1]) begin
      is_counted_q <= 1'b0;
      has_passed_q <= 1'b0;
      accepted_q <= '0;
      passed_q <= '0;
      orders_q <= '0;
      may_order_session_q <= 1'b1;
      records_q <= '0;
    end else begin
      // A barrier reads this three cycles after its command was taken in, and a frame is counted four cycles after its
      // last beat was: so this has exactly the frames that were complete before the command.
      is_counted_q <= window_valid;
      accepted_q <= accepted_q + 16'(is_counted_q);
      has_passed_q <= frame_passed_o;
      passed_q <= passed_q + 16'(has_passed_q);
      records_q <= records_q + 64'(is_recorded_q);
      if (!session_response_valid) session_records_q <= records_q;
      orders_q <= orders_d;
      may_order_session_q <= orders_d == '0 && !session_response_valid;
    end
    if (!rst_nq[7]) counters_o <= '0;
    else for (int unsigned i = 0; i < TransferCounters; i++) counters_o[i] <= counters_o[i] + 64'(counts_q[i]);
    if (!rst_nq[8]) drops_o <= '0;
    else for (int unsigned i = 0; i < DropReasons; i++) drops_o[i] <= drops_o[i] + 64'(drops_q[i]);
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk_i)
    if (rst_ni) begin
      assert (!request_valid || (requests_ready && keys_ready && all_carried_ready)) else $error("a request was lost");
      assert (!issues || issues_ready) else $error("a request that goes on was lost");
      assert (rst_nq[1] || !(window_valid || order_valid)) else $error("the counters are in reset");
      assert (!leaves_q || carried_valid) else $error("a request left without what it carries");
    end
`endif

endmodule
