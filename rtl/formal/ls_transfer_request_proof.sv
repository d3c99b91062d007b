// SPDX-License-Identifier: Apache-2.0
//
// Proof of ls_transfer_request, at full width: each datagram gives exactly one request, in order, after six cycles. The
// reference is written from xdp/transfer_fastpath.h, transfer_native.h, transfer_rules.h and reply.h, with the offsets
// of spec/ as numbers.
// - The outcome, the reason of a drop and the code of a refusal are those of the reference, in each mode, with and
//   without the paper's format and signatures, and for any ranges of issuers.
// - A request for the store has the operation of its packet: command, number, accounts, amount, and the code by which
//   its sender is refused. A request is of a session exactly if it is `execute` and goes to the store; its key and its
//   fields for the record are then those of its packet. Each reply has the right properties of its request.
// - A datagram that may change an account in the mode `express` is forwarded exactly if it is not intact or if
//   ls_classify has decided so; the checksum of no other datagram decides. A datagram is intact if its UDP checksum
//   is not 0, and makes the sum of the datagram a multiple of 65,535 or is the sum of the pseudo header.
// - Both sums for the checksum of the reply have the right words, modulo 65,535.
//
// The statements are about the datagram of the first of seven cycles. Nothing is assumed about the state of the module
// in that cycle, nor about its inputs in any cycle, so the statements hold for each datagram.
//
// The registers may change in any cycle. The ranges of issuers decide about a datagram one cycle after it has come in,
// the bits of the ranges in use after two cycles, all other registers after four cycles. If the registers do not change
// in these cycles, the outcome is that of the XDP program with these registers. Later modules check lease, session and
// accounts.
//
// The RTL differs from the XDP program in these requests: `refer` of several accounts and `execute` of several
// operations are forwarded and counted; an ISSUE of 0 in the native format goes to the store, which refuses it with
// `bad_command`.
//
// Payload sums are added in the same groups of words as in the module, so that the solver finds them equal.

module ls_transfer_request_proof
  import ls_pkg::*;
  import ls_pipeline_pkg::*;
  import ls_transfer_pkg::*;
  import ls_transfer_packet_pkg::*;
(
    input logic clk_i,
    input logic rst_ni,

    input control_t control_i,
    input logic valid_i,
    input datagram_t datagram_i
);

  logic valid;
  request_t request;
  session_key_t key;
  carried_t carried;

  ls_transfer_request u_dut (
      .clk_i,
      .rst_ni,
      .control_i,
      .valid_i,
      .datagram_i,
      .valid_o  (valid),
      .request_o(request),
      .key_o    (key),
      .carried_o(carried)
  );

  // ---- datagrams of the last six cycles, with the registers that decide about them ----

  typedef struct packed {
    logic valid;
    datagram_t datagram;
    logic [127:0] is_inside;  // bytes of the payload
    logic [15:0][17:0] fours;  // sums of four words
    logic [3:0][19:0] sixteens;
    logic [21:0] total;
    logic [18:0] sequence_sum, kept_paper;
    logic [19:0] operation_sum;
    logic [7:0] in_range;  // ranges, whether in use or not, that have the source
    logic may_issue;
    logic is_express;
    logic paper_format;
    logic require_signature;
  } given_t;

  given_t now;
  given_t [6:1] past_q, past_d;
  logic [2:0] cycle_q = '0;
  logic [127:0] source;
  logic [63:0][15:0] raw_words, past_words;

  // Byte 0 of an address is in the low bits; an IPv4 address a.b.c.d is ::ffff:a.b.c.d.
  assign source = past_q[1].datagram.headers.is_v6 ?
                  past_q[1].datagram.source : {past_q[1].datagram.source[31:0], 96'hffff_00000000_00000000_0000};

  always_comb begin
    now = '0;
    now.valid = valid_i;
    now.datagram = datagram_i;
    for (int unsigned i = 0; i < 128; i++) now.is_inside[i] = datagram_i.payload_bytes > 16'(i);
    past_d = {past_q[5:1], now};
    // Words of the payload; an odd last byte is the high half of one.
    for (int unsigned i = 0; i < 64; i++) begin
      raw_words[i] = {past_q[1].datagram.payload[16*i+:8], past_q[1].datagram.payload[16*i+8+:8]};
      past_words[i] = {
        past_q[1].datagram.payload[16*i+:8] & {8{past_q[1].is_inside[2*i]}},
        past_q[1].datagram.payload[16*i+8+:8] & {8{past_q[1].is_inside[2*i+1]}}
      };
    end
    // Bytes 24 to 31; code at byte 42, amount and number at bytes 80 to 95; bytes 2 to 15 of the paper's format.
    past_d[2].sequence_sum = '0;
    for (int unsigned i = 12; i < 16; i++) past_d[2].sequence_sum = past_d[2].sequence_sum + 19'(raw_words[i]);
    past_d[2].operation_sum = 20'(raw_words[21]);
    for (int unsigned i = 40; i < 48; i++) past_d[2].operation_sum = past_d[2].operation_sum + 20'(raw_words[i]);
    past_d[2].kept_paper = '0;
    for (int unsigned i = 1; i < 8; i++) past_d[2].kept_paper = past_d[2].kept_paper + 19'(raw_words[i]);
    past_d[2].fours = '0;
    past_d[3].sixteens = '0;
    past_d[4].total = '0;
    for (int unsigned i = 0; i < 64; i++) past_d[2].fours[i/4] = past_d[2].fours[i/4] + 18'(past_words[i]);
    for (int unsigned i = 0; i < 16; i++) begin
      past_d[3].sixteens[i/4] = past_d[3].sixteens[i/4] + 20'(past_q[2].fours[i]);
    end
    for (int unsigned i = 0; i < 4; i++) past_d[4].total = past_d[4].total + 22'(past_q[3].sixteens[i]);
    for (int unsigned i = 0; i < 8; i++) begin
      past_d[2].in_range[i] = (source & control_i.issuer[i].mask) == control_i.issuer[i].address;
    end
    past_d[3].may_issue = (past_q[2].in_range & control_i.issuers) != '0;
    past_d[5].is_express = control_i.mode == 2'd2;
    past_d[5].paper_format = control_i.paper_format;
    past_d[5].require_signature = control_i.require_signature;
    if (!rst_ni) for (int unsigned age = 1; age <= 6; age++) past_d[age].valid = 1'b0;
  end

  always_ff @(posedge clk_i) begin
    if (cycle_q != '1) cycle_q <= cycle_q + 3'd1;
    past_q <= past_d;
  end

  // ---- reference ----

  given_t g;
  datagram_t d;
  logic [127:0][7:0] bytes;
  assign g = past_q[6];
  assign d = g.datagram;
  assign bytes = d.payload;

  // Returns the number, in network order, in `count` bytes from byte `first` on.
  function automatic logic [63:0] number(input logic [127:0][7:0] payload, input int unsigned first,
                                         input int unsigned count);
    number = '0;
    for (int unsigned i = first; i < first + count; i++) number = {number[55:0], payload[i]};
  endfunction

  // Paper: command, transaction id, source, destination and amount, of four bytes each; at most two zeros.
  // Native header of 16 bytes: magic "LS", version, operation, status, length of the body, request id.
  logic is_paper, is_native, is_reply, is_well_formed, is_refer, is_execute, is_plain;
  logic [31:0] command;
  logic is_bad_paper;
  assign is_paper = d.payload_bytes inside {16'd20, 16'd21, 16'd22};
  assign is_native = !is_paper && d.payload_bytes >= 16'd16 && number(bytes, 0, 2) == 64'h4c53;
  assign is_reply = is_paper ? bytes[0][7] : bytes[3][7];
  assign command = 32'(number(bytes, 0, 4));
  assign is_bad_paper = !(command inside {32'd1, 32'd2, 32'd3, 32'd4}) ||
                        (command == 32'd3 && number(bytes, 16, 4) == '0) ||
                        (d.payload_bytes >= 16'd21 && bytes[20] != '0) ||
                        (d.payload_bytes >= 16'd22 && bytes[21] != '0);
  assign is_well_formed = bytes[2] == 8'd1 && number(bytes, 4, 2) == '0 &&
                          16'(number(bytes, 6, 2)) == d.payload_bytes - 16'd16;
  // `refer` of one account: count 1; durability and a reserved field, which are 0; account; 32 zeros.
  assign is_refer = is_native && is_well_formed && bytes[3] == 8'd2 && d.payload_bytes == 16'd72 &&
                    number(bytes, 16, 4) == 64'd1 && bytes[23:20] == '0 && bytes[71:40] == '0;
  // `execute` of one operation: token, sequence number, slot, count 1, durability 0; operation of 88 bytes.
  assign is_execute = is_native && bytes[3] == 8'd1 && d.payload_bytes == 16'd128;
  assign is_plain = is_execute && is_well_formed && number(bytes, 36, 2) == 64'd1 && bytes[39:38] == '0 &&
                    bytes[41] == '0 && bytes[47:44] == '0;

  // Operation of `execute` from byte 40 on: command, flags, code, contract, source, destination, amount, number,
  // timestamp, uuid, nonce, timeout.
  logic [7:0] sent;
  logic is_operation, has_destination, has_amount;
  assign sent = bytes[40];
  assign has_destination = bytes[79:64] != '0;
  assign has_amount = bytes[87:80] != '0;
  always_comb begin
    is_operation = bytes[43:42] == '0 && bytes[95:88] == '0 && bytes[127:124] == '0;
    case (sent)
      8'd1: ;
      8'd2: if (has_destination) is_operation = 1'b0;  // the store refuses the amount 0
      8'd3: if (!has_amount) is_operation = 1'b0;
      8'd5, 8'd6: if (has_destination || has_amount) is_operation = 1'b0;
      default: is_operation = 1'b0;
    endcase
  end

  // Outcome of a datagram that is intact, and whether it must be.
  logic must_be_intact;
  outcome_e outcome;
  code_e code;
  drop_e reason;
  assign must_be_intact = !d.is_final && g.is_express && (is_paper ? command != 32'd4 : is_execute);
  always_comb begin
    outcome = OutcomeStore;
    code = CodeDone;
    reason = d.reason;
    if (d.is_final) outcome = d.verdict == VerdictDrop ? OutcomeDrop : OutcomeForward;
    else if (is_paper) begin
      if (is_reply || !g.paper_format) begin
        outcome = OutcomeDrop;
        reason = is_reply ? DropReplyBit : DropPaperRefused;
      end else if (is_bad_paper) begin
        outcome = OutcomeRefused;
        code = CodeBadCommand;
      end else if (command != 32'd4) begin
        if (!g.is_express) outcome = OutcomeHost;
        else if (g.require_signature || (command != 32'd3 && !g.may_issue)) begin
          outcome = OutcomeRefused;
          code = CodeUnauthorised;
        end
      end
    end else if (is_native && !is_reply) begin
      if (!is_refer && !(is_plain && g.is_express && !g.require_signature)) outcome = OutcomeHost;
    end else begin
      outcome = OutcomeDrop;
      reason = is_native ? DropReplyBit : DropNotARequest;
    end
  end

  // ---- reference: sums ----

  // Returns the remainder modulo 65,535, where 65,536 counts as 1.
  function automatic logic [15:0] remainder(input logic [23:0] sum);
    logic [16:0] once;
    logic [15:0] twice;
    once = 17'(sum[15:0]) + 17'(sum[23:16]);
    twice = once[15:0] + 16'(once[16]);
    return twice == 16'hffff ? 16'd0 : twice;
  endfunction

  logic [23:0] total, sequence_sum, operation_sum, kept_paper;
  assign total = 24'(g.total);
  assign sequence_sum = 24'(g.sequence_sum);
  assign operation_sum = 24'(g.operation_sum);
  assign kept_paper = 24'(g.kept_paper);

  logic [23:0] whole_sum;
  logic is_intact;
  assign whole_sum = total + 24'(d.headers.partial_sum) + 24'(d.udp_check);
  assign is_intact = d.udp_check != '0 && (remainder(whole_sum) == '0 || d.udp_check == d.pseudo_sum);

  // ---- statements ----

  logic is_answered;  // here, or by store or session
  operation_t o;
  form_t form;
  assign is_answered = request.outcome inside {OutcomeRefused, OutcomeStore};
  assign o = request.operation;
  assign form = carried.form;

  always_comb begin
    if (cycle_q == 3'd6) begin
      assert (valid == g.valid);
      if (valid) begin
        assert (request.outcome == (must_be_intact && !is_intact ? OutcomeForward : outcome));
        if (request.outcome == OutcomeDrop) assert (form.reason == reason);
        if (request.outcome == OutcomeRefused) assert (request.code == code);

        assert (request.is_session == (request.outcome == OutcomeStore && is_execute));
        if (request.is_session) begin
          assert (key.token == number(bytes, 16, 8) && key.session_sequence == number(bytes, 24, 8));
          assert (64'(key.slot) == number(bytes, 32, 4));
          assert (carried.packet.command == bytes[40] && carried.packet.timestamp == number(bytes, 96, 8));
          assert (carried.packet.uuid == bytes[119:104] && 64'(carried.packet.nonce) == number(bytes, 120, 4));
        end

        assert (form.headers == d.headers);
        if (is_answered) assert (form.is_native == !is_paper);
        if (is_answered && is_paper) begin
          assert (form.first == bytes[1:0] && 16'(form.filler) == d.payload_bytes - 16'd20);
          assert (form.trailer == bytes[21]);
        end

        if (request.outcome == OutcomeStore) begin
          assert (o.is_paper == is_paper && o.keep_refusals == is_execute);
          if (is_paper) begin
            assert (32'(o.command) == command && o.refused == CodeDone);
            assert (64'(o.number) == number(bytes, 4, 4));
            // The account is in the last four bytes of an id.
            assert (o.source == {bytes[11:8], 96'd0} && o.destination == {bytes[15:12], 96'd0});
            assert (o.amount == number(bytes, 16, 4));
          end else if (is_execute) begin
            // The store refuses the command 0 as a bad command.
            assert (8'(o.command) == (is_operation ? sent : 8'd0));
            assert (o.refused == (is_operation && sent != 8'd3 && !g.may_issue ? CodeUnauthorised : CodeDone));
            assert (o.number == '0 && o.source == bytes[63:48] && o.destination == bytes[79:64]);
            assert (o.amount == number(bytes, 80, 8));
          end else begin
            assert (o.command == 4'd4 && o.refused == CodeDone && o.number == '0 && o.source == bytes[39:24]);
          end
        end

        // Both sums for the checksum of the reply.
        if (is_answered) begin
          if (is_paper) assert (remainder(24'(form.kept_sum)) == remainder(kept_paper));
          else if (is_refer) assert (remainder(24'(form.kept_sum)) == remainder(total + 24'h80));
          else begin
            assert (remainder(24'(form.kept_sum) + 24'(remainder(sequence_sum + operation_sum))) ==
                    remainder(total + 24'h80));
            assert (remainder(24'(form.operation_sum)) == remainder(operation_sum));
          end
        end
      end
    end
  end

endmodule
