// SPDX-License-Identifier: Apache-2.0
//
// Makes the decision about a frame of `transfer` from what the payload rules and the store have decided: the bytes in
// which the reply differs, its time to live and checksums. Also gives the counters that rise. The RTL twin of
// transfer_paper, transfer_native_refer, transfer_put, transfer_head and transfer_count_answer in
// xdp/transfer_fastpath.h and xdp/transfer_native.h, and of ls_reply in xdp/reply.h.
//
// Interface: one request in each cycle, no back-pressure; exactly one decision for each, in order. result_i counts for
// requests whose outcome is OutcomeStore.
// Latency: three cycles.

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
    input context_t context_i,
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

  logic [2:0] valid_q;
  context_t [1:0] context_q;
  drop_e reason_q;

  // ---- stage 1: outcome, payload, sums ----

  verdict_e verdict_d;
  verdict_e [1:0] verdict_q;
  logic [TransferCounters-1:0] counts_d;
  logic [1:0][TransferCounters-1:0] counts_q;
  logic is_from_store, is_host, is_status;
  word_t status;
  amount_t balance;
  code_e code;
  logic [31:0] amount;
  words_t words_d, words_q;
  logic [PayloadWords-1:0] mask_d, mask_q;
  logic [3:0][18:0] sums_d, sums_q;
  logic [7:0] ttl_d;
  logic [1:0][7:0] ttl_q;

  assign is_from_store = context_i.outcome == OutcomeStore;
  assign code = is_from_store ? result_i.code : context_i.code;
  // A session refuses the whole packet with a status, also if there is no place for its record.
  assign is_status = context_i.outcome == OutcomeStatus || (is_from_store && result_i.is_full);
  assign status = is_from_store ? StatusBusy : word_t'(context_i.status);
  assign balance = is_from_store ? result_i.balance : context_i.amount;
  // In `durable` mode an account that is not in the table may exist: the table may have had no room for it.
  assign is_host = context_i.outcome == OutcomeHost ||
                   (is_from_store && (result_i.forward || (mode_i != ModeExpress && code == CodeUnknownAccount)));

  always_comb begin
    verdict_d = VerdictForward;
    counts_d = '0;
    case (context_i.outcome)
      OutcomeDrop: verdict_d = VerdictDrop;
      OutcomeNotLeased: counts_d[TransferCounterNotLeased] = 1'b1;
      OutcomeHost, OutcomeRefused, OutcomeStore, OutcomeStatus, OutcomeStored: begin
        if (is_host) begin
          counts_d[TransferCounterForwarded] = 1'b1;
        end else begin
          verdict_d = VerdictReply;
          counts_d[TransferCounterReplies] = 1'b1;
          if (context_i.outcome == OutcomeStored || (is_from_store && result_i.repeated)) begin
            counts_d[TransferCounterRepeats] = 1'b1;
          end else if (is_from_store && code == CodeBusy) begin
            counts_d[TransferCounterBusy] = 1'b1;
            counts_d[TransferCounterRingFull] = result_i.is_full;
          end else if (code != CodeDone && (!context_i.is_native || context_i.is_execute)) begin
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
    sums_d = '0;
    amount = code == CodeDone ? result_i.balance[31:0] : 32'(code);
    if (context_i.is_execute) begin
      // The sequence number is always replaced; in most replies by the same one.
      for (int unsigned i = 0; i < 4; i++) begin
        words_d[SequenceAt+3-i] = context_i.session_sequence[16*i+:16];
        words_d[OperationAt+OperationAmountAt/2+3-i] = balance[16*i+:16];
        sums_d[1] = sums_d[1] + 19'(context_i.session_sequence[16*i+:16]);
        if (!is_status) sums_d[2] = sums_d[2] + 19'(balance[16*i+:16]);
      end
      words_d[StatusAt] = is_status ? status : StatusOk;
      words_d[DurabilityAt] = is_status ? '0 : word_t'(ModeExpress);
      words_d[OperationAt+OperationCodeAt/2] = word_t'(code);
      sums_d[0] = 19'(words_d[StatusAt]) + 19'(words_d[DurabilityAt]) +
                  (is_status ? 19'(context_i.operation_sum) : 19'(code));
      mask_d[StatusAt] = 1'b1;
      mask_d[SequenceAt+:4] = '1;
      mask_d[DurabilityAt] = 1'b1;
      if (!is_status) begin
        mask_d[OperationAt+OperationCodeAt/2] = 1'b1;
        // Amount and number; the number is 0.
        mask_d[OperationAt+OperationAmountAt/2+:8] = '1;
      end
    end else if (context_i.is_native) begin
      words_d[ModeAt] = word_t'(mode_i);
      for (int unsigned i = 0; i < 4; i++) begin
        words_d[ItemAt+BalanceItemBalanceAt/2+3-i] = result_i.balance[16*i+:16];
        words_d[ItemAt+BalanceItemHeldAt/2+3-i] = result_i.held[16*i+:16];
        words_d[ItemAt+BalanceItemVersionAt/2+3-i] = result_i.version[16*i+:16];
        sums_d[1] = sums_d[1] + 19'(result_i.balance[16*i+:16]);
        sums_d[2] = sums_d[2] + 19'(result_i.held[16*i+:16]);
        sums_d[3] = sums_d[3] + 19'(result_i.version[16*i+:16]);
      end
      words_d[ItemAt+BalanceItemCodeAt/2] = word_t'(code);
      words_d[ItemAt+BalanceItemFrozenAt/2] = word_t'(result_i.frozen);
      sums_d[0] = 19'(code) + 19'(result_i.frozen) + 19'(mode_i);
      mask_d[ModeAt] = 1'b1;
      mask_d[ItemAt+BalanceItemBalanceAt/2+:(BalanceItemReservedAt-BalanceItemBalanceAt)/2] = '1;
    end else begin
      words_d[0] = be16(context_i.first) | {code != CodeDone, 15'd0};
      words_d[AmountAt] = amount[31:16];
      words_d[AmountAt+1] = amount[15:0];
      // The filler becomes zero; a byte after it stays.
      words_d[FillerAt] = context_i.filler[0] ? word_t'(context_i.trailer) : '0;
      sums_d[0] = 19'(words_d[0]) + 19'(amount[31:16]) + 19'(amount[15:0]);
      mask_d[0] = 1'b1;
      mask_d[AmountAt+:2] = '1;
      mask_d[FillerAt] = context_i.filler != 2'd0;
    end
    sums_d[0] = sums_d[0] + 19'(context_i.kept_sum) + 19'(context_i.headers.partial_sum);
    ttl_d = reply_ttl(context_i.is_native, context_i.headers.ttl);
  end

  always_ff @(posedge clk_i) begin
    context_q[0] <= context_i;
    verdict_q <= {verdict_q[0], verdict_d};
    counts_q <= {counts_q[0], counts_d};
    ttl_q <= {ttl_q[0], ttl_d};
    words_q <= words_d;
    mask_q <= mask_d;
    sums_q <= sums_d;
  end

  // ---- stage 2: checksums, first shift ----

  logic [20:0] total;
  word_t udp_check_d, udp_check_q, ip_check_d, ip_check_q;
  word_t [VlanShift+PayloadWords-1:0] body_d, body_q;
  logic [VlanShift+PayloadWords-1:0] body_mask_d, body_mask_q;

  always_comb begin
    logic [7:0] old_ttl;
    word_t inverted;  // a variable of its own: tools differ in the width of `~` within a cast
    total = '0;
    for (int unsigned i = 0; i < 4; i++) total = total + 21'(sums_q[i]);
    udp_check_d = ~fold(32'(total));
    if (udp_check_d == '0) udp_check_d = '1;
    old_ttl = context_q[0].headers.ttl;
    inverted = ~context_q[0].headers.ip_check;
    // Update of the header checksum (RFC 1624). The protocol, which shares the word, adds the same on both sides.
    ip_check_d = ~fold(32'(inverted) + 32'({~old_ttl, 8'hff - 8'd17}) + 32'({ttl_q[0], 8'd17}));
    if (ttl_q[0] == old_ttl) ip_check_d = context_q[0].headers.ip_check;
    body_d = '0;
    body_mask_d = '0;
    for (int unsigned i = 0; i < PayloadWords; i++) begin
      if (context_q[0].headers.is_vlan) begin
        body_d[VlanShift+i] = be16(words_q[i]);
        body_mask_d[VlanShift+i] = mask_q[i];
      end else begin
        body_d[i] = be16(words_q[i]);
        body_mask_d[i] = mask_q[i];
      end
    end
  end

  always_ff @(posedge clk_i) begin
    context_q[1] <= context_q[0];
    udp_check_q <= udp_check_d;
    ip_check_q <= ip_check_d;
    body_q <= body_d;
    body_mask_q <= body_mask_d;
  end

  // ---- stage 3: second shift, verdict ----

  decision_t decision_d;

  always_comb begin
    decision_d.verdict = verdict_q[1];
    decision_d.is_native = context_q[1].is_native;
    decision_d.is_v6 = context_q[1].headers.is_v6;
    decision_d.is_vlan = context_q[1].headers.is_vlan;
    decision_d.ttl = ttl_q[1];
    decision_d.ip_check = ip_check_q;
    decision_d.udp_check = udp_check_q;
    decision_d.mask = '0;
    decision_d.body = '0;
    if (context_q[1].headers.is_v6) begin
      decision_d.mask[V6Shift+:BodyWords-V6Shift] = body_mask_q;
      decision_d.body[16*V6Shift+:16*(BodyWords-V6Shift)] = (16 * (BodyWords - V6Shift))'(body_q);
    end else begin
      decision_d.mask[BodyWords-V6Shift-1:0] = body_mask_q;
      decision_d.body[16*(BodyWords-V6Shift)-1:0] = (16 * (BodyWords - V6Shift))'(body_q);
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) valid_q <= '0;
    else valid_q <= {valid_q[1:0], valid_i};
  end

  always_ff @(posedge clk_i) begin
    decision_o <= decision_d;
    reason_q <= context_q[1].reason;
    counts_o <= counts_q[1];
  end

  assign valid_o  = valid_q[2];
  assign reason_o = reason_q;

endmodule
