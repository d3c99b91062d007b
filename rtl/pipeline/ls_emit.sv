// SPDX-License-Identifier: Apache-2.0
//
// Output of the pipeline: joins each frame with its decision, and sends it to the host unchanged, sends it to the
// network as a reply, or discards it. A reply is the request with the bytes changed that ls_swap_macs, ls_reply and
// ls_set_ttl in xdp/reply.h change, and with the payload of the decision.
//
// Interface: ready/valid on all streams. Frames and decisions come in the same order, one decision for each frame.
// A frame leaves only when its decision is there. Both outputs keep the order; a frame that one output does not
// accept holds back the frames after it, also those for the other output.
// Patches are for the frames whose decision has is_patched: one for the second beat and for each beat after it, up to
// the patch with is_end. The first beat of such a frame waits for the first patch.
// frame_passed_o is 1 for one cycle when the last beat of a frame was accepted by its output or discarded.
// Latency: four cycles after beat, decision and patch are all there. In the first cycle, the module takes them
// together; in the second one, it puts the patch into the beat, and chooses those bytes of the decision that belong to
// the beat; in the third one, it writes them into the beat; in the fourth one, it puts the beat into the queue in front
// of the outputs. A beat is taken only if that queue has a place for it, so no stage waits. The inputs may come out of
// distributed RAM, because registers take them.
// Throughput: one beat in each cycle.

module ls_emit
  import ls_pkg::*;
  import ls_pipeline_pkg::*;
(
    input logic clk_i,
    input logic rst_ni,

    input logic decision_valid_i,
    output logic decision_ready_o,
    input decision_t decision_i,

    input  logic  frame_valid_i,
    output logic  frame_ready_o,
    input  beat_t frame_i,

    input  logic   patch_valid_i,
    output logic   patch_ready_o,
    input  patch_t patch_i,

    output logic  network_valid_o,
    input  logic  network_ready_i,
    output beat_t network_o,

    output logic  host_valid_o,
    input  logic  host_ready_i,
    output beat_t host_o,

    output logic frame_passed_o,
    output verdict_e passed_verdict_o
);

  localparam int unsigned Kinds = 4;  // of headers: IPv4, IPv4 with a VLAN tag, IPv6, IPv6 with a VLAN tag

  // A beat with its decision and its patch.
  typedef struct packed {
    decision_t decision;
    logic is_reply;
    logic [Kinds-1:0] replies;  // a reply with headers of this kind
    beat_t beat;
    logic is_patched;
    patch_t patch;
  } joined_t;

  // A beat, and what changes in it. Of a forwarded or dropped frame, nothing does.
  typedef struct packed {
    verdict_e verdict;
    logic [Kinds-1:0] first;  // the first beat of a reply with headers of this kind
    logic [Kinds-1:0] second;
    logic [BeatBytes-1:0] in_header;  // bytes of the headers that change
    logic is_native;
    logic [7:0] ttl;
    logic [15:0] ip_check;
    logic [15:0] udp_check;
    logic [BeatBytes/2-1:0] mask;  // 16-bit words that are replaced
    logic [BeatBits-1:0] body;
    beat_t beat;
  } chosen_t;

  typedef struct packed {
    verdict_e verdict;
    beat_t beat;
  } output_t;

  localparam int unsigned OutBeats = 8;
  localparam int unsigned CountBits = $clog2(OutBeats) + 1;

  // Bytes of the headers in the first two beats that a reply changes, by kind of headers.
  function automatic logic [Kinds-1:0][2*BeatBytes-1:0] changed_bytes();
    int unsigned ip_at, udp_at;
    changed_bytes = '0;
    for (int unsigned kind = 0; kind < Kinds; kind++) begin
      ip_at = EthBytes + VlanBytes * (kind % 2);
      udp_at = ip_at + (kind / 2 == 1 ? Ipv6Bytes : Ipv4Bytes);
      changed_bytes[kind][0+:12] = '1;  // addresses of Ethernet
      if (kind / 2 == 1) changed_bytes[kind][ip_at+7+:33] = '1;  // hop limit and addresses
      else begin
        changed_bytes[kind][ip_at+8] = 1'b1;
        changed_bytes[kind][ip_at+10+:10] = '1;  // checksum and addresses
      end
      changed_bytes[kind][udp_at+:4] = '1;
      changed_bytes[kind][udp_at+6+:2] = '1;
    end
  endfunction

  localparam logic [Kinds-1:0][2*BeatBytes-1:0] InHeader = changed_bytes();

  logic is_first_q, is_done_q;  // the next beat to take is the first one of its frame; the last patch was taken
  logic takes, is_needed, uses_patch, joined_valid_q, chosen_valid_q, rewritten_valid_q;
  logic out_has_room, out_valid, out_ready;
  joined_t joined_d, joined_q;
  logic [WindowBeats:0] place_q;  // of joined_q in its frame, one of these bits; the highest one: after the window
  chosen_t chosen, chosen_q;
  output_t rewritten, rewritten_q, out;
  // Beats that were taken and have not left; there is room for one more beat, also if one was taken one cycle ago.
  logic [CountBits-1:0] held_q, unused_count;
  logic has_room_q;

  // ---- join ----

  assign takes = decision_valid_i && frame_valid_i && has_room_q &&
                 (!decision_i.is_patched || is_done_q || patch_valid_i);
  // Of a dropped frame, only a mark of its last beat goes on, so that frame_passed_o keeps the order.
  assign is_needed = decision_i.verdict != VerdictDrop || frame_i.last;
  assign uses_patch = takes && decision_i.is_patched && !is_first_q && !is_done_q;
  assign frame_ready_o = takes;
  assign decision_ready_o = takes && frame_i.last;
  assign patch_ready_o = uses_patch;

  always_comb begin
    joined_d.decision = decision_i;
    joined_d.is_reply = decision_i.verdict == VerdictReply;
    for (int unsigned kind = 0; kind < Kinds; kind++) begin
      joined_d.replies[kind] = joined_d.is_reply && {decision_i.is_v6, decision_i.is_vlan} == 2'(kind);
    end
    joined_d.beat = frame_i;
    joined_d.is_patched = uses_patch;
    joined_d.patch = patch_i;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      is_first_q <= 1'b1;
      is_done_q  <= 1'b0;
    end else if (takes) begin
      is_first_q <= frame_i.last;
      is_done_q  <= !frame_i.last && (is_done_q || (uses_patch && patch_i.is_end));
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      joined_valid_q <= 1'b0;
      chosen_valid_q <= 1'b0;
      rewritten_valid_q <= 1'b0;
      held_q <= '0;
      has_room_q <= 1'b1;
    end else begin
      joined_valid_q <= takes && is_needed;
      chosen_valid_q <= joined_valid_q;
      rewritten_valid_q <= chosen_valid_q;
      held_q <= held_q + CountBits'(takes && is_needed) - CountBits'(out_valid && out_ready);
      has_room_q <= held_q < CountBits'(OutBeats - 1);
    end
  end

  always_ff @(posedge clk_i) begin
    if (!SkipsIdle || takes) joined_q <= joined_d;
    if (!SkipsIdle || joined_valid_q) chosen_q <= chosen;
    if (!SkipsIdle || chosen_valid_q) rewritten_q <= rewritten;
  end

  // ---- patch, and choice of the bytes ----

  always_comb begin
    logic [8*WindowBytes-1:0] body;
    logic [WindowBytes/2-1:0] mask;
    chosen = '0;
    chosen.verdict = joined_q.decision.verdict;
    chosen.beat = joined_q.beat;
    if (SkipsIdle && !(joined_valid_q && joined_q.is_reply)) begin
      body = '0;
      mask = '0;
    end else begin
      for (int unsigned word = 0; word < BeatBytes / 2; word++) begin
        if (joined_q.is_patched && joined_q.patch.mask[word]) begin
          chosen.beat.data[16*word+:16] = joined_q.patch.data[16*word+:16];
        end
      end
      body = {{8 * (WindowBytes - BodyFirst - BodyBytes) {1'b0}}, joined_q.decision.body, {8 * BodyFirst{1'b0}}};
      mask = {{(WindowBytes - BodyFirst - BodyBytes) / 2{1'b0}}, joined_q.decision.mask, {BodyFirst / 2{1'b0}}};
      // One bit of place_q is 1, so no choice depends on the one before.
      for (int unsigned i = 0; i < WindowBeats; i++) begin
        if (place_q[i]) chosen.body |= body[BeatBits*i+:BeatBits];
        if (place_q[i] && joined_q.is_reply) chosen.mask |= mask[BeatBytes/2*i+:BeatBytes/2];
      end
      chosen.is_native = joined_q.decision.is_native;
      chosen.ttl = joined_q.decision.ttl;
      chosen.ip_check = be16(joined_q.decision.ip_check);
      chosen.udp_check = be16(joined_q.decision.udp_check);
      for (int unsigned kind = 0; kind < Kinds; kind++) begin
        if (joined_q.replies[kind]) begin
          chosen.first[kind]  = place_q[0];
          chosen.second[kind] = place_q[1];
          if (place_q[0]) chosen.in_header |= InHeader[kind][0+:BeatBytes];
          if (place_q[1]) chosen.in_header |= InHeader[kind][BeatBytes+:BeatBytes];
        end
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) place_q <= (WindowBeats + 1)'(1);
    else if (joined_valid_q) begin
      if (joined_q.beat.last) place_q <= (WindowBeats + 1)'(1);
      else place_q <= {|place_q[WindowBeats:WindowBeats-1], place_q[WindowBeats-2:0], 1'b0};
    end
  end

  // ---- rewriting ----

  // One case for each kind of headers, so that the synthesis sees constants. At most one bit of `first` and `second` is
  // 1, so the cases are joined by OR, and no choice depends on another one.
  always_comb begin
    int unsigned ip_at, udp_at, payload_at;
    logic [BeatBits-1:0] old, data;
    logic [BeatBits-1:0] header;  // new bytes of headers
    ip_at = 0;
    udp_at = 0;
    payload_at = 0;
    old = chosen_q.beat.data;
    data = old;
    header = '0;
    if (!SkipsIdle || (chosen_valid_q && chosen_q.verdict == VerdictReply)) begin
      for (int unsigned i = 0; i < BeatBytes; i++) begin
        if (chosen_q.mask[i/2]) data[8*i+:8] = chosen_q.body[8*i+:8];
        if (chosen_q.in_header[i]) data[8*i+:8] = '0;
      end
      for (int unsigned kind = 0; kind < Kinds; kind++) begin
        ip_at = EthBytes + VlanBytes * (kind % 2);
        udp_at = ip_at + (kind / 2 == 1 ? Ipv6Bytes : Ipv4Bytes);
        payload_at = udp_at + UdpBytes;
        if (chosen_q.first[kind]) begin
          // Addresses and ports change places. All of them are in the first beat, also behind a VLAN tag.
          header[0+:96] |= {old[0+:48], old[48+:48]};
          if (kind / 2 == 1) begin
            header[8*(ip_at+8)+:256] |= {old[8*(ip_at+8)+:128], old[8*(ip_at+24)+:128]};
            header[8*(ip_at+7)+:8] |= chosen_q.ttl;
          end else begin
            header[8*(ip_at+12)+:64] |= {old[8*(ip_at+12)+:32], old[8*(ip_at+16)+:32]};
            header[8*(ip_at+8)+:8] |= chosen_q.ttl;
            header[8*(ip_at+10)+:16] |= chosen_q.ip_check;
          end
          header[8*udp_at+:32] |= {old[8*udp_at+:16], old[8*(udp_at+2)+:16]};
        end
        for (int unsigned beat = 0; beat < 2; beat++) begin
          if (beat == 0 ? chosen_q.first[kind] : chosen_q.second[kind]) begin
            if ((payload_at - 2) / BeatBytes == beat) header[8*((payload_at-2)%BeatBytes)+:16] |= chosen_q.udp_check;
            if (chosen_q.is_native && (payload_at + NativeHeaderOpAt) / BeatBytes == beat) begin
              header[8*((payload_at+NativeHeaderOpAt)%BeatBytes)+:8] |= NativeReplyBit;
            end
          end
        end
      end
      data |= header;
    end
    rewritten.verdict = chosen_q.verdict;
    rewritten.beat.last = chosen_q.beat.last;
    rewritten.beat.keep = chosen_q.beat.keep;
    rewritten.beat.data = data;
  end

  // ---- outputs ----

  ls_fifo #(
      .T(output_t),
      .Depth(OutBeats),
      .HasRoom(1'b1)
  ) u_out (
      .clk_i,
      .rst_ni,
      .valid_i(rewritten_valid_q),
      .ready_o(out_has_room),
      .data_i (rewritten_q),
      .valid_o(out_valid),
      .ready_i(out_ready),
      .data_o (out),
      .count_o(unused_count)
  );

  assign network_o = out.beat;
  assign host_o = out.beat;
  assign network_valid_o = out_valid && out.verdict == VerdictReply;
  assign host_valid_o = out_valid && out.verdict == VerdictForward;
  always_comb begin
    case (out.verdict)
      VerdictReply: out_ready = network_ready_i;
      VerdictForward: out_ready = host_ready_i;
      default: out_ready = 1'b1;
    endcase
  end
  assign frame_passed_o   = out_valid && out_ready && out.beat.last;
  assign passed_verdict_o = out.verdict;

`ifndef SYNTHESIS
  always_ff @(posedge clk_i)
    if (rst_ni) assert (!rewritten_valid_q || out_has_room) else $error("a beat was lost");
`endif

endmodule
