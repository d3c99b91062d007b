// SPDX-License-Identifier: Apache-2.0
//
// Payload rules of `transfer`: the RTL twin of transfer_answer, transfer_is_intact and transfer_may_issue, and of the
// checks of transfer_paper and transfer_native_refer, in xdp/transfer_fastpath.h and xdp/transfer_native.h. The RTL
// answers requests in the paper's format, native `refer` of one account, and native `execute` of one plain operation;
// it forwards all other native requests to the host. A request with a wrong checksum that may change an account is
// forwarded and not counted, as in the XDP program. `execute` of more than one operation is forwarded and counted
// whatever its checksum is. The lease is checked later, when a request is given to the store.
//
// Interface: one datagram in each cycle, no back-pressure. Each datagram gives exactly one request, in order. key_o is
// the key of a request of a session.
// Latency: six cycles.

module ls_transfer_request
  import ls_pkg::*;
  import ls_pipeline_pkg::*;
  import ls_transfer_pkg::*;
  import ls_transfer_packet_pkg::*;
(
    input logic clk_i,
    input logic rst_ni,

    input control_t control_i,

    input logic valid_i,
    input datagram_t datagram_i,

    output logic valid_o,
    output request_t request_o,
    output session_key_t key_o,
    output carried_t carried_o
);

  localparam int unsigned Groups = PayloadWords / 4;
  localparam int unsigned HeadAt = 8 * NativeHeaderBytes;
  localparam int unsigned ItemAt = HeadAt + 8 * ReferHeadBytes;
  localparam int unsigned OperationAt = HeadAt + 8 * ExecuteHeadBytes;
  // Words of a paper packet that its reply repeats: after the two bytes with the bit of a refusal, before the amount.
  localparam int unsigned KeptFirst = 1;
  localparam int unsigned KeptEnd = PaperTransferAmountAt / 2;

  typedef logic [15:0] word_t;

  // Properties of a datagram, apart from its sums.
  typedef struct packed {
    logic is_final;
    verdict_e verdict;
    drop_e reason;
    logic is_paper;
    logic is_native;
    logic is_reply;  // has the bit of a refusal or of a reply
    logic is_refer;  // native `refer` of one account
    logic is_execute;  // native `execute` with the length of one operation
    logic is_plain;  // `execute` of one operation without flags and contract
    logic is_whole;  // a paper packet with valid command, amount and filler
    logic is_reading;
    logic is_transfer;
    headers_t headers;
    word_t pseudo_sum;
    word_t udp_check;
    word_t first;
    logic [1:0] filler;
    logic [7:0] trailer;
    operation_t operation;
    packet_t packet;
    session_key_t key;
  } parsed_t;

  // Comparisons of the first stage.
  typedef struct packed {
    logic is_native_magic;
    logic is_well_formed;
    logic is_operation;
    logic is_refer_head;
    logic is_refer_empty;
    logic is_execute;
    logic is_plain_head;
    logic is_paper;
    logic is_command;  // a paper command of a client
    logic is_reading;
    logic is_transfer;
    logic has_amount;
    logic has_filler;
    logic has_trailer;
  } flags_t;

  logic [4:0] valid_q;
  parsed_t parsed_d;
  parsed_t [3:0] parsed_q;

  // ---- stage 0: comparisons, bytes that count, source ----

  logic [8*PayloadBytesMax-1:0] payload_0, payload;
  logic [31:0] command_0, command, amount;
  logic is_native_magic_0, is_well_formed_0;
  logic [8*OperationBytes-1:0] words_0, words;
  logic [7:0] sent_command_0, sent_command;
  logic [127:0] source_0, source_q;
  logic [PayloadBytesMax-1:0] counts_q;  // bytes of the payload
  datagram_t datagram_q;
  flags_t flags_d, flags_q;
  logic unused_bytes;

  assign unused_bytes = &{1'b0, payload_0, words_0, datagram_q};
  assign payload_0 = datagram_i.payload;
  assign words_0 = payload_0[OperationAt+:8*OperationBytes];
  assign sent_command_0 = words_0[8*OperationCommandAt+:8];
  assign command_0 = be32(payload_0[8*PaperTransferCommandAt+:32]);
  assign is_native_magic_0 = datagram_i.payload_bytes >= 16'(NativeHeaderBytes) &&
                             be16(payload_0[8*NativeHeaderMagicAt+:16]) == NativeMagic;
  assign is_well_formed_0 = payload_0[8*NativeHeaderVersionAt+:8] == NativeVersion &&
                            payload_0[8*NativeHeaderStatusAt+:16] == '0 &&
                            17'(be16(payload_0[8*NativeHeaderLengthAt+:16])) + 17'(NativeHeaderBytes) ==
                            17'(datagram_i.payload_bytes);
  // An IPv4 address a.b.c.d is compared as ::ffff:a.b.c.d.
  assign source_0 = datagram_i.headers.is_v6 ? datagram_i.source : {datagram_i.source[31:0], 16'hffff, 80'd0};

  always_comb begin
    logic is_transfer, is_create, is_freeze;
    // See transfer_is_operation in xdp/transfer_rules.h.
    is_transfer = sent_command_0 == 8'(TransferCommandTransfer);
    is_create = sent_command_0 == 8'(TransferCommandCreate);
    is_freeze = sent_command_0 inside {8'(TransferCommandFreeze), 8'(TransferCommandUnfreeze)};
    flags_d.is_operation = (is_transfer || is_create || is_freeze || sent_command_0 == 8'(TransferCommandIssue)) &&
                           words_0[8*OperationCodeAt+:16] == '0 && words_0[8*OperationNumberAt+:64] == '0 &&
                           words_0[8*OperationTimeoutSAt+:32] == '0 &&
                           (is_transfer || is_create || words_0[8*OperationDestinationAt+:128] == '0) &&
                           !(is_freeze && words_0[8*OperationAmountAt+:64] != '0) &&
                           !(is_transfer && words_0[8*OperationAmountAt+:64] == '0);
    flags_d.is_native_magic = is_native_magic_0;
    flags_d.is_well_formed = is_well_formed_0;
    flags_d.is_paper = datagram_i.payload_bytes >= 16'(TransferPaperBytesMin) &&
                       datagram_i.payload_bytes <= 16'(TransferPaperBytesMax);
    flags_d.is_command = command_0 >= TransferCommandCreate && command_0 <= TransferCommandRefer;
    flags_d.is_reading = command_0 == TransferCommandRefer;
    flags_d.is_transfer = command_0 == TransferCommandTransfer;
    flags_d.has_amount = payload_0[8*PaperTransferAmountAt+:32] != '0;
    flags_d.has_filler = payload_0[8*TransferPaperBytesMin+:8] != '0;
    flags_d.has_trailer = payload_0[8*(TransferPaperBytesMin+1)+:8] != '0;
    // All fields of the only item after the account, and those of the head after the count, are zero.
    flags_d.is_refer_head = payload_0[8*NativeHeaderOpAt+:8] == TransferOpRefer &&
        datagram_i.payload_bytes == 16'(ReferBytes) &&
        be32(payload_0[HeadAt+8*ReferHeadCountAt+:32]) == 32'd1 &&
        payload_0[HeadAt+8*ReferHeadDurabilityAt+:8*(ReferHeadBytes-ReferHeadDurabilityAt)] == '0;
    flags_d.is_refer_empty = payload_0[ItemAt+8*BalanceItemBalanceAt+:8*(BalanceItemBytes-BalanceItemBalanceAt)] == '0;
    flags_d.is_execute = is_native_magic_0 && payload_0[8*NativeHeaderOpAt+:8] == TransferOpExecute &&
                         datagram_i.payload_bytes == 16'(ExecuteBytes);
    flags_d.is_plain_head = be16(payload_0[HeadAt+8*ExecuteHeadCountAt+:16]) == 16'd1 &&
                            payload_0[HeadAt+8*ExecuteHeadDurabilityAt+:16] == '0 &&
                            words_0[8*OperationFlagsAt+:8] == '0 && words_0[8*OperationContractAt+:32] == '0;
  end

  always_ff @(posedge clk_i) begin
    datagram_q <= datagram_i;
    flags_q <= flags_d;
    source_q <= source_0;
    for (int unsigned i = 0; i < PayloadBytesMax; i++) counts_q[i] <= datagram_i.payload_bytes > 16'(i);
  end

  // ---- stage 1: fields, sums of four words ----

  logic [18:0] sequence_sum_d, sequence_sum_q;
  logic [19:0] operation_sum_d, operation_sum_q;
  logic [Groups-1:0][17:0] sums_d, sums_q;
  logic [18:0] kept_d, kept_q;
  // Parts of the source are in the ranges of issuers.
  localparam int unsigned SourceParts = 4;
  localparam int unsigned SourceBits = 128 / SourceParts;
  logic [RegisterTransferIssuerCount-1:0][SourceParts-1:0] parts_in_range_d, parts_in_range_q;

  assign payload = datagram_q.payload;
  assign words = payload[OperationAt+:8*OperationBytes];
  assign sent_command = words[8*OperationCommandAt+:8];
  assign command = be32(payload[8*PaperTransferCommandAt+:32]);
  assign amount = be32(payload[8*PaperTransferAmountAt+:32]);

  always_comb begin
    parsed_d.is_final = datagram_q.is_final;
    parsed_d.verdict = datagram_q.verdict;
    parsed_d.reason = datagram_q.reason;
    parsed_d.headers = datagram_q.headers;
    parsed_d.pseudo_sum = datagram_q.pseudo_sum;
    parsed_d.udp_check = datagram_q.udp_check;
    parsed_d.first = payload[15:0];
    parsed_d.filler = 2'(datagram_q.payload_bytes - 16'(TransferPaperBytesMin));
    parsed_d.trailer = payload[8*(TransferPaperBytesMin+1)+:8];
    parsed_d.is_paper = flags_q.is_paper;
    parsed_d.is_native = flags_q.is_native_magic;
    parsed_d.is_reply = flags_q.is_paper ? (command & TransferPaperRefused) != '0 :
                        (payload[8*NativeHeaderOpAt+:8] & NativeReplyBit) != '0;
    parsed_d.is_reading = flags_q.is_reading;
    parsed_d.is_transfer = flags_q.is_transfer;
    parsed_d.is_whole = flags_q.is_command && !(flags_q.is_transfer && !flags_q.has_amount) &&
                        !(parsed_d.filler != 2'd0 && flags_q.has_filler) &&
                        !(parsed_d.filler[1] && flags_q.has_trailer);
    parsed_d.is_refer = flags_q.is_well_formed && flags_q.is_refer_head && flags_q.is_refer_empty;
    parsed_d.is_execute = flags_q.is_execute;
    parsed_d.is_plain = flags_q.is_execute && flags_q.is_well_formed && flags_q.is_plain_head;
    parsed_d.key.slot = be32(payload[HeadAt+8*ExecuteHeadSlotAt+:32]);
    parsed_d.key.token = be64(payload[HeadAt+8*ExecuteHeadTokenAt+:64]);
    parsed_d.key.session_sequence = be64(payload[HeadAt+8*ExecuteHeadSequenceAt+:64]);
    parsed_d.packet.command = sent_command;
    parsed_d.packet.nonce = be32(words[8*OperationNonceAt+:32]);
    parsed_d.packet.timestamp = be64(words[8*OperationTimestampAt+:64]);
    parsed_d.packet.uuid = words[8*OperationUuidAt+:128];
    parsed_d.operation = '0;
    parsed_d.operation.is_paper = parsed_d.is_paper;
    if (parsed_d.is_paper) begin
      parsed_d.operation.command = command[3:0];
      parsed_d.operation.number = be32(payload[8*PaperTransferTransactionIdAt+:32]);
      parsed_d.operation.source[IdBits-1-:PaperBits] = payload[8*PaperTransferSourceAt+:32];
      parsed_d.operation.destination[IdBits-1-:PaperBits] = payload[8*PaperTransferDestinationAt+:32];
      parsed_d.operation.amount = amount_t'(amount);
    end else if (parsed_d.is_execute) begin
      // Every refusal of a session has a record; the store refuses command 0.
      parsed_d.operation.keep_refusals = 1'b1;
      parsed_d.operation.command = flags_q.is_operation ? sent_command[3:0] : '0;
      parsed_d.operation.source = words[8*OperationSourceAt+:IdBits];
      parsed_d.operation.destination = words[8*OperationDestinationAt+:IdBits];
      parsed_d.operation.amount = be64(words[8*OperationAmountAt+:64]);
    end else begin
      parsed_d.operation.command = CommandRefer;
      parsed_d.operation.source = payload[ItemAt+8*BalanceItemAccountAt+:IdBits];
    end
  end

  // A word counts as far as it is in the payload; of an odd payload, the last byte is the high half of a word.
  function automatic word_t masked(input logic [15:0] bytes, input logic [1:0] counts);
    return {bytes[7:0] & {8{counts[0]}}, bytes[15:8] & {8{counts[1]}}};
  endfunction

  always_comb begin
    for (int unsigned i = 0; i < Groups; i++) begin
      sums_d[i] = '0;
      for (int unsigned j = 0; j < 4; j++) begin
        sums_d[i] = sums_d[i] + 18'(masked(payload[64*i+16*j+:16], counts_q[8*i+2*j+:2]));
      end
    end
    sequence_sum_d = '0;
    operation_sum_d = 20'(be16(words[8*OperationCodeAt+:16]));
    for (int unsigned i = 0; i < 4; i++) begin
      sequence_sum_d = sequence_sum_d + 19'(be16(payload[HeadAt+8*ExecuteHeadSequenceAt+16*i+:16]));
    end
    for (int unsigned i = 0; i < 8; i++) begin
      operation_sum_d = operation_sum_d + 20'(be16(words[8*OperationAmountAt+16*i+:16]));
    end
    kept_d = '0;
    for (int unsigned i = KeptFirst; i < KeptEnd; i++) kept_d = kept_d + 19'(be16(payload[16*i+:16]));
    for (int unsigned i = 0; i < RegisterTransferIssuerCount; i++) begin
      for (int unsigned j = 0; j < SourceParts; j++) begin
        parts_in_range_d[i][j] =
            (source_q[SourceBits*j+:SourceBits] & control_i.issuer[i].mask[SourceBits*j+:SourceBits]) ==
            control_i.issuer[i].address[SourceBits*j+:SourceBits];
      end
    end
  end

  always_ff @(posedge clk_i) begin
    parsed_q[0] <= parsed_d;
    sums_q <= sums_d;
    sequence_sum_q <= sequence_sum_d;
    operation_sum_q <= operation_sum_d;
    kept_q <= kept_d;
    parts_in_range_q <= parts_in_range_d;
  end

  // ---- stage 2: sums of sixteen words ----

  localparam int unsigned Quarters = (Groups + 3) / 4;

  logic [Quarters-1:0][19:0] quarters_d, quarters_q;
  logic [18:0] sequence_sum_2_q, kept_1_q;
  logic [19:0] operation_sum_1_q;
  logic [RegisterTransferIssuerCount-1:0] is_in_range_q;

  always_comb begin
    quarters_d = '0;
    for (int unsigned i = 0; i < Groups; i++) quarters_d[i/4] = quarters_d[i/4] + 20'(sums_q[i]);
  end

  always_ff @(posedge clk_i) begin
    parsed_q[1] <= parsed_q[0];
    quarters_q <= quarters_d;
    sequence_sum_2_q <= sequence_sum_q;
    kept_1_q <= kept_q;
    operation_sum_1_q <= operation_sum_q;
    for (int unsigned i = 0; i < RegisterTransferIssuerCount; i++) begin
      is_in_range_q[i] <= control_i.issuers[i] && parts_in_range_q[i] == '1;
    end
  end

  // ---- stage 3: sum of the payload ----

  logic [21:0] total_d, total_q;
  word_t kept_2_q, removed_q, operation_sum_2_q;
  logic may_issue_q;

  always_comb begin
    total_d = '0;
    for (int unsigned i = 0; i < Quarters; i++) total_d = total_d + 22'(quarters_q[i]);
  end

  always_ff @(posedge clk_i) begin
    parsed_q[2] <= parsed_q[1];
    total_q <= total_d;
    kept_2_q <= fold(32'(kept_1_q));
    operation_sum_2_q <= fold(32'(operation_sum_1_q));
    removed_q <= parsed_q[1].is_execute ? fold(32'(operation_sum_1_q) + 32'(sequence_sum_2_q)) : '0;
    may_issue_q <= |is_in_range_q;
  end

  // ---- stage 4: checksum; outcome of a packet that is intact ----

  parsed_t parsed_3;
  word_t folded_q, kept_sum_q, operation_sum_3_q;
  logic is_pseudo_q, has_check_q;
  word_t not_removed;  // a variable of its own: tools differ in the width of `~` within a cast
  logic is_express, is_write, may_issue_own;
  outcome_e outcome_d, outcome_q;
  code_e code_d, code_q;
  drop_e reason_d, reason_q;
  logic must_be_intact_q, is_unauthorised_q;

  assign parsed_3 = parsed_q[2];
  assign not_removed = ~removed_q;
  assign is_express = control_i.mode == ModeExpress;
  assign is_write = parsed_3.is_paper && !parsed_3.is_reading;
  assign may_issue_own = may_issue_q || parsed_3.operation.command == CommandTransfer ||
                         parsed_3.operation.command == '0;

  always_comb begin
    outcome_d = OutcomeStore;
    code_d = CodeBadCommand;
    reason_d = parsed_3.reason;
    if (parsed_3.is_final) begin
      outcome_d = parsed_3.verdict == VerdictDrop ? OutcomeDrop : OutcomeForward;
    end else if (!parsed_3.is_paper && !parsed_3.is_native) begin
      outcome_d = OutcomeDrop;
      reason_d = DropNotARequest;
    end else if (parsed_3.is_reply) begin
      outcome_d = OutcomeDrop;
      reason_d = DropReplyBit;
    end else if (parsed_3.is_paper && !control_i.paper_format) begin
      outcome_d = OutcomeDrop;
      reason_d = DropPaperRefused;
    end else if (!parsed_3.is_paper) begin
      if (!parsed_3.is_refer && !(parsed_3.is_plain && is_express && !control_i.require_signature)) begin
        outcome_d = OutcomeHost;
      end
    end else if (!parsed_3.is_whole) begin
      outcome_d = OutcomeRefused;
    end else if (is_write && !is_express) begin
      outcome_d = OutcomeHost;
    end else if (is_write && (control_i.require_signature || (!parsed_3.is_transfer && !may_issue_q))) begin
      outcome_d = OutcomeRefused;
      code_d = CodeUnauthorised;
    end
  end

  always_ff @(posedge clk_i) begin
    parsed_q[3] <= parsed_3;
    folded_q <= fold(32'(total_q) + 32'(parsed_3.headers.partial_sum) + 32'(parsed_3.udp_check));
    // The reply bit is not set in a request, so it adds its value.
    kept_sum_q <= parsed_3.is_paper ? kept_2_q : fold(32'(total_q) + 32'(NativeReplyBit) + 32'(not_removed));
    operation_sum_3_q <= operation_sum_2_q;
    has_check_q <= parsed_3.udp_check != '0;
    is_pseudo_q <= parsed_3.udp_check == parsed_3.pseudo_sum;
    outcome_q <= outcome_d;
    code_q <= code_d;
    reason_q <= reason_d;
    must_be_intact_q <= !parsed_3.is_final && is_express && (is_write || parsed_3.is_execute);
    is_unauthorised_q <= parsed_3.is_execute && !may_issue_own;
  end

  // ---- stage 5: outcome ----

  parsed_t parsed;
  request_t request_d;
  carried_t carried_d;
  logic is_intact, unused_parsed;

  assign parsed = parsed_q[3];
  assign unused_parsed = &{1'b0, parsed};
  // See ls_is_intact in xdp/reply.h: a checksum of 0 is not accepted, and one of the pseudo header only is.
  assign is_intact = has_check_q && (folded_q == '1 || is_pseudo_q);

  always_comb begin
    carried_d.form.reason = reason_q;
    carried_d.form.is_native = !parsed.is_paper;
    carried_d.form.headers = parsed.headers;
    carried_d.form.first = parsed.first;
    carried_d.form.filler = parsed.filler;
    carried_d.form.trailer = parsed.trailer;
    carried_d.form.kept_sum = kept_sum_q;
    carried_d.form.operation_sum = operation_sum_3_q;
    carried_d.packet = parsed.packet;
    request_d.outcome = must_be_intact_q && !is_intact ? OutcomeForward : outcome_q;
    request_d.code = code_q;
    request_d.operation = parsed.operation;
    if (is_unauthorised_q) request_d.operation.refused = CodeUnauthorised;
    request_d.is_session = parsed.is_execute && request_d.outcome == OutcomeStore;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      valid_q <= '0;
      valid_o <= 1'b0;
    end else begin
      valid_q <= {valid_q[3:0], valid_i};
      valid_o <= valid_q[4];
    end
  end

  always_ff @(posedge clk_i) begin
    request_o <= request_d;
    key_o <= parsed.key;
    carried_o <= carried_d;
  end

endmodule
