// SPDX-License-Identifier: Apache-2.0
//
// Proof of ls_transfer_reply: each request gives exactly one decision, in order, after six cycles. The reference
// follows transfer_answer, transfer_paper, transfer_native_refer, transfer_in_session and ls_reply of the XDP program,
// with the offsets of spec/ as numbers.
// - The verdict, the counters that rise, and no others, and the reason of a drop, for each outcome of the request and
//   each result of the store.
// - The words of the payload that the decision replaces, for each format of a reply (the paper's, `refer`, `execute`
//   with a result or with a status that refuses the packet) and each kind of headers: exactly these, with exactly these
//   values. No word is before the payload, and none has the operation of a native packet.
// - The hop limit. The IPv4 header checksum is right if that of the request was, it has the one of both
//   representations of 0 that the XDP program gives, and it is unchanged if the hop limit is.
// - The UDP checksum makes the sum of the reply a multiple of 65,535, and is not 0.
//
// All inputs are free at full width. The mode is free in each cycle: the verdict follows the mode of the request's
// cycle, and a reply to `refer` says the mode of that cycle or of the next one.
//
// Assumed: the modules before this one give only requests and results that are described below. One assumption is about
// the host: it does not end the mode `express` while the store has a request of a session. Otherwise a request that was
// executed, and refused because its account is unknown, goes to the host, too. In the paper's format, the module cannot
// tell a request that reads from one that writes, so the reference does not, either.
//
// The first task is about all but the UDP checksum, and each of the next three about the UDP checksum in one format.
// The last one shows that the assumptions allow every kind of decision.

module ls_transfer_reply_proof
  import ls_pkg::*;
  import ls_pipeline_pkg::*;
  import ls_transfer_pkg::*;
  import ls_transfer_packet_pkg::*;
#(
    // 0: all but the UDP checksum. 1: UDP checksum in the paper's format, 2: of `refer`, 3: of `execute`.
    parameter int unsigned Sums = 0
) (
    input logic clk_i,
    input logic rst_ni,

    input logic [1:0] mode_i,
    input logic valid_i,
    input about_t about_i,
    input form_t form_i,
    input result_t result_i
);

  localparam int unsigned Latency = 6;
  localparam int unsigned PayloadBytes = 128;
  localparam logic [1:0] Express = 2'd2;

  // Request as it was given. Its form comes in the next cycle; modes[1] is the mode of that cycle.
  typedef struct packed {
    logic valid;
    logic [1:0][1:0] modes;
    about_t about;
    result_t result;
    form_t form;
  } given_t;

  about_t about;
  form_t form;
  given_t now, last, r;
  given_t [Latency:1] past_q;
  logic is_first_q = 1'b1;

  always_comb begin
    about = about_i;
    form = form_i;
    if (Sums != 0) begin
      form.is_native = Sums != 1;
      about.is_execute = Sums == 3;
    end
    now = '0;
    now.valid = rst_ni && valid_i;
    now.modes[0] = mode_i;
    now.about = about;
    now.result = result_i;
  end

  always_ff @(posedge clk_i) begin
    is_first_q <= 1'b0;
    past_q <= {past_q[Latency-1:1], now};
    past_q[2].form <= form;
    past_q[2].modes[1] <= mode_i;
    if (!rst_ni) for (int unsigned age = 1; age <= Latency; age++) past_q[age].valid <= 1'b0;
  end

  // The request of the cycle before, and the one whose decision is at the output.
  assign last = past_q[1];
  assign r = past_q[Latency];

  logic valid;
  decision_t decision;
  drop_e reason;
  logic [TransferCounters-1:0] counts;

  ls_transfer_reply u_dut (
      .clk_i,
      .rst_ni,
      .mode_i,
      .valid_i,
      .about_i(about),
      .form_i(form),
      .result_i,
      .valid_o(valid),
      .decision_o(decision),
      .reason_o(reason),
      .counts_o(counts)
  );

  // ---- assumptions ----

  always_comb begin
    assume (!is_first_q || !rst_ni);
    // A session refuses or repeats only its own requests. Only requests in the paper's format are refused before.
    if (about.outcome inside {OutcomeStatus, OutcomeStored}) assume (about.is_execute);
    if (about.outcome == OutcomeRefused) assume (!about.is_execute && about.code != CodeDone);
    if (last.about.is_execute) assume (form.is_native);
    if (last.about.outcome == OutcomeRefused) assume (!form.is_native);
    if (!form.is_native) assume (form.filler <= 2'd2);
    if (about.outcome == OutcomeStore) begin
      // A request without a place for its record is busy, and nothing else.
      if (result_i.is_full) assume (result_i.code == CodeBusy && !result_i.forward && !result_i.repeated);
      // The store finds repetitions, and is busy without credit, only for requests with a transaction id.
      if (about.is_execute) begin
        assume (!result_i.repeated && (result_i.code != CodeBusy || result_i.is_full || result_i.forward));
        assume (mode_i == Express);
      end
    end
    if (last.about.outcome == OutcomeStore) begin
      // Reading needs no place and no claim. In the paper's format, no balance has more than 32 bits.
      if (form.is_native && !last.about.is_execute) begin
        assume (last.result.code inside {CodeDone, CodeUnknownAccount});
        assume (!last.result.is_full && !last.result.repeated && !last.result.forward);
      end
      if (!form.is_native && last.result.code == CodeDone) assume (last.result.balance[63:32] == '0);
    end
  end

  // ---- verdict, counters ----

  // Outcome of an answer as the XDP program gives it to transfer_count_answer: a code, or one of these values.
  localparam logic [8:0] SaysRepeated = 9'h100;
  localparam logic [8:0] SaysBusy = 9'h101;
  localparam logic [8:0] SaysRingFull = 9'h102;

  logic is_from_store, is_answer, is_host, is_full, is_refer;
  logic [8:0] says;
  code_e code;
  verdict_e expected_verdict;
  logic [TransferCounters-1:0] expected_counts;

  assign is_from_store = r.about.outcome == OutcomeStore;
  assign is_full = is_from_store && r.result.is_full;
  assign is_refer = r.form.is_native && !r.about.is_execute;
  assign code = is_from_store ? r.result.code : r.about.code;

  always_comb begin
    is_answer = 1'b0;
    is_host = 1'b0;
    case (r.about.outcome)
      OutcomeHost: is_host = 1'b1;
      OutcomeRefused, OutcomeStatus, OutcomeStored: is_answer = 1'b1;
      OutcomeStore: begin
        // Without `express`, the store only reads, and an account that is not in the table may exist.
        is_host = r.result.forward ||
                  (!r.about.is_execute && r.modes[0] != Express && r.result.code == CodeUnknownAccount);
        is_answer = !is_host;
      end
      default: ;
    endcase

    says = {5'd0, code};
    if (is_refer) says = '0;
    else if (r.about.outcome == OutcomeStored) says = SaysRepeated;
    else if (is_full) says = SaysRingFull;
    else if (is_from_store && r.result.repeated) says = SaysRepeated;
    else if (is_from_store && r.result.code == CodeBusy) says = SaysBusy;

    expected_verdict = VerdictForward;
    if (is_answer) expected_verdict = VerdictReply;
    if (r.about.outcome == OutcomeDrop) expected_verdict = VerdictDrop;

    expected_counts = '0;
    expected_counts[TransferCounterNotLeased] = r.about.outcome == OutcomeNotLeased;
    expected_counts[TransferCounterForwarded] = is_host;
    if (is_answer) begin
      expected_counts[TransferCounterReplies] = 1'b1;
      expected_counts[TransferCounterRepeats] = says == SaysRepeated;
      expected_counts[TransferCounterBusy] = says > SaysRepeated;
      expected_counts[TransferCounterRingFull] = says == SaysRingFull;
      expected_counts[TransferCounterRefusals] = says != '0 && says < SaysRepeated;
    end
  end

  // ---- payload ----

  // The decision from the first payload byte on, and its words before that byte.
  logic [BodyBytes-1:0][7:0] body;
  logic [BodyBytes/2-1:0] mask, head_mask;
  logic [4:0] payload_at;  // byte of the decision
  logic [1:0] told_mode;  // mode that a reply to `refer` says

  assign payload_at = (r.form.headers.is_vlan ? 5'd4 : 5'd0) + (r.form.headers.is_v6 ? 5'd20 : 5'd0);
  assign head_mask = ~({BodyBytes / 2{1'b1}} << payload_at[4:1]);
  assign mask = decision.mask >> payload_at[4:1];
  assign body = decision.body >> {payload_at, 3'd0};
  assign told_mode = body[21][1:0];

  // Expected bytes, and the bytes that the decision must give.
  logic [PayloadBytes-1:0][7:0] reply, given_bits;
  logic [PayloadBytes-1:0] is_given;
  logic [BodyBytes/2-1:0] expected_mask;
  logic is_status;  // the session refuses the packet
  logic [15:0] status;
  logic [31:0] paper_amount;
  logic [63:0] balance;

  assign is_status = r.about.outcome == OutcomeStatus || is_full;
  assign status = is_full ? StatusBusy : {12'd0, r.about.status};
  assign balance = is_from_store ? r.result.balance : r.about.amount;
  assign paper_amount = code == CodeDone ? balance[31:0] : {28'd0, code};

  always_comb begin
    reply = '0;
    is_given = '0;
    if (!r.form.is_native) begin
      // The high half of the command, with the bit of a refusal.
      is_given[1:0] = '1;
      reply[0] = r.form.first[7:0];
      reply[1] = r.form.first[15:8];
      if (code != CodeDone) reply[0][7] = 1'b1;
      // The balance, or the code.
      is_given[19:16] = '1;
      for (int unsigned i = 0; i < 4; i++) reply[16+i] = paper_amount[8*(3-i)+:8];
      // The one or two bytes that follow become 0. A byte after the payload does not change.
      if (r.form.filler != 2'd0) is_given[21:20] = '1;
      if (r.form.filler == 2'd1) reply[21] = r.form.trailer;
    end else if (is_refer) begin
      // Durability; of the item: balance, amount held, version, code, mark of a frozen account.
      is_given[21:20] = '1;
      reply[21] = {6'd0, told_mode};
      is_given[67:40] = '1;
      for (int unsigned i = 0; i < 8; i++) begin
        reply[40+i] = r.result.balance[8*(7-i)+:8];
        reply[48+i] = r.result.held[8*(7-i)+:8];
        reply[56+i] = r.result.version[8*(7-i)+:8];
      end
      reply[65] = {4'd0, code};
      reply[67] = {7'd0, r.result.frozen};
    end else begin
      // Status, sequence number, durability.
      is_given[5:4] = '1;
      is_given[31:24] = '1;
      is_given[39:38] = '1;
      for (int unsigned i = 0; i < 8; i++) reply[24+i] = r.about.session_sequence[8*(7-i)+:8];
      if (is_status) begin
        reply[4] = status[15:8];
        reply[5] = status[7:0];
      end else begin
        reply[39] = {6'd0, Express};
        // Code, amount and number of the operation.
        is_given[43:42] = '1;
        is_given[95:80] = '1;
        reply[43] = {4'd0, code};
        for (int unsigned i = 0; i < 8; i++) reply[80+i] = balance[8*(7-i)+:8];
      end
    end

    expected_mask = '0;
    for (int unsigned i = 0; i < PayloadBytes / 2; i++) expected_mask[i] = is_given[2*i];
    for (int unsigned i = 0; i < PayloadBytes; i++) given_bits[i] = {8{is_given[i]}};
  end

  // ---- hop limit, checksums ----

  logic [7:0] ttl, old_ttl;
  logic signed [18:0] ip_change;  // of the sum over the IPv4 header

  assign old_ttl = r.form.headers.ttl;
  assign ip_change = 19'({3'd0, decision.ip_check}) + 19'({3'd0, decision.ttl, 8'd17}) -
                     19'({3'd0, r.form.headers.ip_check}) - 19'({3'd0, old_ttl, 8'd17});
  always_comb begin
    ttl = 8'd64;
    if (!r.form.is_native && old_ttl <= 8'd64) ttl = old_ttl == '0 ? '0 : old_ttl - 8'd1;
  end

  // Sum of the words of a number.
  function automatic logic [17:0] words_of(input logic [63:0] number);
    words_of = '0;
    for (int unsigned i = 0; i < 4; i++) words_of = words_of + 18'(number[16*i+:16]);
  endfunction

  // Sum of the reply from the pseudo header on. The bytes after the amount of the paper's format add 0.
  logic [17:0] kept;  // what the reply keeps, but for the operation of an `execute`
  logic [19:0] sum;
  logic [20:0] total;
  logic is_multiple;
  always_comb begin
    kept = 18'(r.form.kept_sum) + 18'(r.form.headers.partial_sum);
    if (!r.form.is_native) begin
      sum = 20'({reply[0], reply[1]}) + 20'(paper_amount[31:16]) + 20'(paper_amount[15:0]) + 20'(kept);
    end else if (is_refer) begin
      sum = 20'(words_of(r.result.balance)) + 20'(words_of(r.result.held)) + 20'(words_of(r.result.version)) +
            20'(code) + 20'(told_mode) + 20'(r.result.frozen) + 20'(kept);
    end else begin
      // Code, amount and number of the operation are those of the request if a status refuses the packet; otherwise,
      // the number is 0.
      sum = 20'(words_of(r.about.session_sequence)) + 20'(words_of(is_status ? '0 : balance)) +
            20'(is_status ? 2'd0 : Express) +
            20'(18'(is_status ? status : 16'd0) + 18'(is_status ? r.form.operation_sum : 16'(code)) + kept);
    end
    total = 21'(sum) + 21'(decision.udp_check);
    is_multiple = 1'b0;
    for (int unsigned n = 1; n <= 17; n++) if (total == 21'(65535 * n)) is_multiple = 1'b1;
  end

  // ---- statements ----

  logic is_reply;
  assign is_reply = valid && decision.verdict == VerdictReply;

  always_comb begin
    if (!is_first_q && Sums == 0) begin
      assert (valid == r.valid);
      if (valid) begin
        assert (decision.verdict == expected_verdict);
        assert (counts == expected_counts);
        if (decision.verdict == VerdictDrop) assert (reason == r.form.reason);
        assert (!decision.is_patched);
      end
      if (is_reply) begin
        assert (decision.is_native == r.form.is_native);
        assert (decision.is_v6 == r.form.headers.is_v6 && decision.is_vlan == r.form.headers.is_vlan);
        assert ((decision.mask & head_mask) == '0);
        assert (!r.form.is_native || !mask[1]);
        assert (mask == expected_mask);
        assert (((body[PayloadBytes-1:0] ^ reply) & given_bits) == '0);
        if (is_refer) assert (told_mode == r.modes[0] || told_mode == r.modes[1]);
        assert (decision.ttl == ttl);
        if (ttl == old_ttl) assert (decision.ip_check == r.form.headers.ip_check);
        else assert (ip_change inside {19'sd0, 19'sd65535, -19'sd65535} && decision.ip_check != '1);
      end
    end
    if (!is_first_q && Sums != 0 && is_reply) begin
      assert (is_multiple);
      assert (decision.udp_check != '0);
    end
  end

  // Each verdict, counter, format and kind of headers occurs.
  always_comb begin
    if (!is_first_q && Sums == 0) begin
      cover (valid && decision.verdict == VerdictDrop);
      cover (valid && decision.verdict == VerdictForward && counts == '0);
      for (int unsigned i = 0; i < TransferCounters; i++) cover (valid && counts[i]);
      for (int unsigned kind = 0; kind < 4; kind++) begin
        if ({decision.is_v6, decision.is_vlan} == 2'(kind)) begin
          cover (is_reply && !decision.is_native && r.form.filler == 2'd1 && code == CodeDone);
          cover (is_reply && !decision.is_native && code != CodeDone);
          cover (is_reply && is_refer && r.modes[0] == Express && code == CodeUnknownAccount);
          cover (is_reply && is_refer && r.modes[0] != Express && r.result.frozen);
          cover (is_reply && r.about.is_execute && !is_status && code == CodeDone);
          cover (is_reply && r.about.is_execute && is_status && is_from_store);
          cover (is_reply && r.about.is_execute && is_status && !is_from_store);
        end
      end
    end
  end

endmodule
