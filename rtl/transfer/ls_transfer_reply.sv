// SPDX-License-Identifier: Apache-2.0
//
// Makes the decision about a frame of `transfer` from what the payload rules and the store have decided: the bytes in
// which the reply differs, its time to live and checksums. Also gives the counters that rise. The RTL twin of
// transfer_paper, transfer_native_refer, transfer_put, transfer_head and transfer_count_answer in
// xdp/transfer_fastpath.h and xdp/transfer_native.h, and of ls_reply in xdp/reply.h.
//
// Interface: one request in each cycle, no back-pressure; exactly one decision for each, in order. result_i counts for
// requests whose outcome is OutcomeStore. form_i is the form of the request of the cycle before.
// Latency: six cycles.

module ls_transfer_reply
  import ls_pkg::*;
  import ls_pipeline_pkg::*;
  import ls_transfer_pkg::*;
  import ls_transfer_packet_pkg::*;
(
    input logic clk_i,
    input logic rst_ni,

    input logic [1:0] mode_i,

    input logic valid_i,
    input about_t about_i,
    input form_t form_i,
    input result_t result_i,

    output logic valid_o,
    output decision_t decision_o,
    output drop_e reason_o,  // of a drop
    output logic [TransferCounters-1:0] counts_o  // counters that rise by 1
);

  localparam int unsigned ItemAt = (NativeHeaderBytes + ReferHeadBytes) / 2;
  localparam int unsigned ModeAt = (NativeHeaderBytes + ReferHeadDurabilityAt) / 2;
  localparam int unsigned StatusAt = NativeHeaderStatusAt / 2;
  localparam int unsigned SequenceAt = (NativeHeaderBytes + ExecuteHeadSequenceAt) / 2;
  localparam int unsigned DurabilityAt = (NativeHeaderBytes + ExecuteHeadDurabilityAt) / 2;
  localparam int unsigned OperationAt = (NativeHeaderBytes + ExecuteHeadBytes) / 2;
  localparam int unsigned AmountAt = PaperTransferAmountAt / 2;
  localparam int unsigned FillerAt = TransferPaperBytesMin / 2;
  // 16-bit words by which the payload of a frame may lie behind BodyFirst.
  localparam int unsigned VlanShift = VlanBytes / 2;
  localparam int unsigned V6Shift = (Ipv6Bytes - Ipv4Bytes) / 2;
  localparam int unsigned BodyWords = BodyBytes / 2;

  typedef logic [15:0] word_t;
  typedef word_t [PayloadWords-1:0] words_t;

  logic [5:0] valid_q;
  about_t about_q;
  result_t result_q;
  headers_t [1:0] headers_q;
  logic [2:0] is_native_q;
  drop_e [2:0] reasons_q;

  // ---- stage 0: what the request and the store say about the reply ----

  logic is_from_store, is_from_store_q, is_host_q, is_status_q, unused_fields;
  code_e code_d, code;
  amount_t balance;
  word_t status;

  assign is_from_store = about_i.outcome == OutcomeStore;
  assign code_d = is_from_store ? result_i.code : about_i.code;

  assign unused_fields = &{1'b0, about_q, form_i, result_q};

  always_ff @(posedge clk_i) begin
    about_q <= about_i;
    result_q <= result_i;
    is_from_store_q <= is_from_store;
    code <= code_d;
    // A session refuses the whole packet with a status, also if there is no place for its record.
    is_status_q <= about_i.outcome == OutcomeStatus || (is_from_store && result_i.is_full);
    status <= is_from_store ? StatusBusy : word_t'(about_i.status);
    balance <= is_from_store ? result_i.balance : about_i.amount;
    // In `durable` mode an account that is not in the table may exist: the table may have had no room for it.
    is_host_q <= about_i.outcome == OutcomeHost ||
                 (is_from_store && (result_i.forward || (mode_i != ModeExpress && code_d == CodeUnknownAccount)));
  end

  // ---- stage 1: outcome, payload ----

  localparam int unsigned Terms = 16;  // of the checksum

  verdict_e verdict_d;
  verdict_e [2:0] verdict_q;
  logic [TransferCounters-1:0] counts_d;
  logic [3:0][TransferCounters-1:0] counts_q;
  logic is_host, is_status;
  logic [31:0] amount;
  words_t words_d;
  words_t words_q, words_2_q;
  logic [PayloadWords-1:0] mask_d, mask_q, mask_2_q;
  word_t [Terms-1:0] terms_d, terms_q;
  logic [7:0] ttl_d;
  logic [2:0][7:0] ttl_q;

  assign is_host = is_host_q;
  assign is_status = is_status_q;

  always_comb begin
    verdict_d = VerdictForward;
    counts_d = '0;
    case (about_q.outcome)
      OutcomeDrop: verdict_d = VerdictDrop;
      OutcomeNotLeased: counts_d[TransferCounterNotLeased] = 1'b1;
      OutcomeHost, OutcomeRefused, OutcomeStore, OutcomeStatus, OutcomeStored: begin
        if (is_host) begin
          counts_d[TransferCounterForwarded] = 1'b1;
        end else begin
          verdict_d = VerdictReply;
          counts_d[TransferCounterReplies] = 1'b1;
          if (about_q.outcome == OutcomeStored || (is_from_store_q && result_q.repeated)) begin
            counts_d[TransferCounterRepeats] = 1'b1;
          end else if (is_from_store_q && code == CodeBusy) begin
            counts_d[TransferCounterBusy] = 1'b1;
            counts_d[TransferCounterRingFull] = result_q.is_full;
          end else if (code != CodeDone && (!form_i.is_native || about_q.is_execute)) begin
            counts_d[TransferCounterRefusals] = 1'b1;
          end
        end
      end
      default: ;
    endcase
  end

  always_comb begin
    words_d = '0;
    mask_d = '0;
    terms_d = '0;
    amount = code == CodeDone ? result_q.balance[31:0] : 32'(code);
    if (about_q.is_execute) begin
      // The sequence number is always replaced; in most replies by the same one.
      for (int unsigned i = 0; i < 4; i++) begin
        words_d[SequenceAt+3-i] = about_q.session_sequence[16*i+:16];
        words_d[OperationAt+OperationAmountAt/2+3-i] = balance[16*i+:16];
        terms_d[i] = about_q.session_sequence[16*i+:16];
        if (!is_status) terms_d[4+i] = balance[16*i+:16];
      end
      words_d[StatusAt] = is_status ? status : StatusOk;
      words_d[DurabilityAt] = is_status ? '0 : word_t'(ModeExpress);
      words_d[OperationAt+OperationCodeAt/2] = word_t'(code);
      terms_d[12] = words_d[StatusAt];
      terms_d[13] = is_status ? form_i.operation_sum : word_t'(code);
      terms_d[8] = words_d[DurabilityAt];
      mask_d[StatusAt] = 1'b1;
      mask_d[SequenceAt+:4] = '1;
      mask_d[DurabilityAt] = 1'b1;
      if (!is_status) begin
        mask_d[OperationAt+OperationCodeAt/2] = 1'b1;
        // Amount and number; the number is 0.
        mask_d[OperationAt+OperationAmountAt/2+:8] = '1;
      end
    end else if (form_i.is_native) begin
      words_d[ModeAt] = word_t'(mode_i);
      for (int unsigned i = 0; i < 4; i++) begin
        words_d[ItemAt+BalanceItemBalanceAt/2+3-i] = result_q.balance[16*i+:16];
        words_d[ItemAt+BalanceItemHeldAt/2+3-i] = result_q.held[16*i+:16];
        words_d[ItemAt+BalanceItemVersionAt/2+3-i] = result_q.version[16*i+:16];
        terms_d[i] = result_q.balance[16*i+:16];
        terms_d[4+i] = result_q.held[16*i+:16];
        terms_d[8+i] = result_q.version[16*i+:16];
      end
      words_d[ItemAt+BalanceItemCodeAt/2] = word_t'(code);
      words_d[ItemAt+BalanceItemFrozenAt/2] = word_t'(result_q.frozen);
      terms_d[12] = word_t'(code);
      terms_d[13] = word_t'(mode_i) + word_t'(result_q.frozen);
      mask_d[ModeAt] = 1'b1;
      mask_d[ItemAt+BalanceItemBalanceAt/2+:(BalanceItemReservedAt-BalanceItemBalanceAt)/2] = '1;
    end else begin
      words_d[0] = be16(form_i.first) | {code != CodeDone, 15'd0};
      words_d[AmountAt] = amount[31:16];
      words_d[AmountAt+1] = amount[15:0];
      // The filler becomes zero; a byte after it stays.
      words_d[FillerAt] = form_i.filler[0] ? word_t'(form_i.trailer) : '0;
      terms_d[0] = words_d[0];
      terms_d[1] = amount[31:16];
      terms_d[2] = amount[15:0];
      mask_d[0] = 1'b1;
      mask_d[AmountAt+:2] = '1;
      mask_d[FillerAt] = form_i.filler != 2'd0;
    end
    terms_d[14] = form_i.kept_sum;
    terms_d[15] = form_i.headers.partial_sum;
    ttl_d = reply_ttl(form_i.is_native, form_i.headers.ttl);
  end

  always_ff @(posedge clk_i) begin
    headers_q <= {headers_q[0], form_i.headers};
    is_native_q <= {is_native_q[1:0], form_i.is_native};
    reasons_q <= {reasons_q[1], reasons_q[0], form_i.reason};
    verdict_q <= {verdict_q[1], verdict_q[0], verdict_d};
    counts_q <= {counts_q[2], counts_q[1], counts_q[0], counts_d};
    ttl_q <= {ttl_q[1], ttl_q[0], ttl_d};
    words_q <= words_d;
    mask_q <= mask_d;
    terms_q <= terms_d;
  end

  // ---- stage 2: sums ----

  logic [3:0][17:0] sums_d, sums_q;
  logic [17:0] ip_sum_q;
  logic keeps_ip_q;
  word_t inverted;  // a variable of its own: tools differ in the width of `~` within a cast

  assign inverted = ~headers_q[0].ip_check;

  always_comb begin
    sums_d = '0;
    for (int unsigned i = 0; i < Terms; i++) sums_d[i/4] = sums_d[i/4] + 18'(terms_q[i]);
  end

  always_ff @(posedge clk_i) begin
    sums_q <= sums_d;
    // Update of the header checksum (RFC 1624). The protocol, which shares the word, adds the same on both sides.
    ip_sum_q <= 18'(inverted) + 18'({~headers_q[0].ttl, 8'hff - 8'd17}) + 18'({ttl_q[0], 8'd17});
    keeps_ip_q <= ttl_q[0] == headers_q[0].ttl;
    words_2_q <= words_q;
    mask_2_q <= mask_q;
  end

  // ---- stage 3: first shift; sum ----

  logic [19:0] total_q;
  word_t ip_check_q, udp_check_d;
  word_t [VlanShift+PayloadWords-1:0] body_d, body_q;
  logic [VlanShift+PayloadWords-1:0] body_mask_d, body_mask_q;
  logic is_v6_q, is_vlan_q;

  always_comb begin
    body_d = '0;
    body_mask_d = '0;
    for (int unsigned i = 0; i < PayloadWords; i++) begin
      if (headers_q[1].is_vlan) begin
        body_d[VlanShift+i] = be16(words_2_q[i]);
        body_mask_d[VlanShift+i] = mask_2_q[i];
      end else begin
        body_d[i] = be16(words_2_q[i]);
        body_mask_d[i] = mask_2_q[i];
      end
    end
  end

  always_ff @(posedge clk_i) begin
    total_q <= 20'(sums_q[0]) + 20'(sums_q[1]) + 20'(sums_q[2]) + 20'(sums_q[3]);
    ip_check_q <= keeps_ip_q ? headers_q[1].ip_check : ~fold(32'(ip_sum_q));
    body_q <= body_d;
    body_mask_q <= body_mask_d;
    is_v6_q <= headers_q[1].is_v6;
    is_vlan_q <= headers_q[1].is_vlan;
  end

  // ---- stage 4: second shift, checksum ----

  decision_t decision_d, decision_q;

  assign udp_check_d = ~fold(32'(total_q));

  always_comb begin
    decision_d.verdict = verdict_q[2];
    decision_d.is_patched = 1'b0;
    decision_d.is_native = is_native_q[2];
    decision_d.is_v6 = is_v6_q;
    decision_d.is_vlan = is_vlan_q;
    decision_d.ttl = ttl_q[2];
    decision_d.ip_check = ip_check_q;
    decision_d.udp_check = udp_check_d;
    decision_d.mask = '0;
    decision_d.body = '0;
    if (is_v6_q) begin
      decision_d.mask[V6Shift+:BodyWords-V6Shift] = body_mask_q;
      decision_d.body[16*V6Shift+:16*(BodyWords-V6Shift)] = (16 * (BodyWords - V6Shift))'(body_q);
    end else begin
      decision_d.mask[BodyWords-V6Shift-1:0] = body_mask_q;
      decision_d.body[16*(BodyWords-V6Shift)-1:0] = (16 * (BodyWords - V6Shift))'(body_q);
    end
  end

  // ---- stage 5: a checksum of 0 is sent as all ones ----

  always_ff @(posedge clk_i) begin
    if (!rst_ni) valid_q <= '0;
    else valid_q <= {valid_q[4:0], valid_i};
  end

  drop_e reason_4_q;
  always_ff @(posedge clk_i) begin
    decision_q <= decision_d;
    reason_4_q <= reasons_q[2];
    decision_o <= decision_q;
    if (decision_q.udp_check == '0) decision_o.udp_check <= '1;
    reason_o <= reason_4_q;
    counts_o <= counts_q[3];
  end

  assign valid_o = valid_q[5];

endmodule
