// SPDX-License-Identifier: Apache-2.0
//
// Output of the pipeline: joins each frame with its decision, and sends it to the host unchanged, sends it to the
// network as a reply, or discards it. A reply is the request with the bytes changed that ls_swap_macs, ls_reply and
// ls_set_ttl in xdp/reply.h change, and with the payload of the decision.
//
// Interface: ready/valid on all streams. Frames and decisions come in the same order, one decision for each frame.
// A frame leaves only when its decision is there. Both outputs keep the order; a frame that one output does not
// accept holds back the frames after it, also those for the other output.
// frame_passed_o is 1 for one cycle when the last beat of a frame was accepted by its output or discarded.
// Latency: three cycles after beat and decision are both there. In the first cycle, the module chooses those bytes of
// the decision that belong to the beat; in the second one, it writes them into the beat; in the third one, it puts the
// beat into the queue in front of the outputs. A beat is taken only if that queue has a place for it, so no stage waits.
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

  // A beat, and what changes in it. Of a forwarded or dropped frame, nothing does.
  typedef struct packed {
    verdict_e verdict;
    logic [Kinds-1:0] first;  // the first beat of a reply with headers of this kind
    logic [Kinds-1:0] second;
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

  logic [WindowBeats:0] place_q;  // of the beat in its frame, one of these bits; the highest one: after the window
  logic is_joined, is_reply, is_needed, chosen_valid_q, rewritten_valid_q, out_has_room, out_valid, out_ready;
  chosen_t chosen, chosen_q;
  output_t rewritten, rewritten_q, out;
  // Beats that were taken and have not left; there is room for one more beat, also if one was taken one cycle ago.
  logic [CountBits-1:0] held_q, unused_count;
  logic has_room_q;

  // ---- join, and choice of the bytes ----

  assign is_joined = decision_valid_i && frame_valid_i && has_room_q;
  assign is_reply = decision_i.verdict == VerdictReply;
  // Of a dropped frame, only a mark of its last beat goes on, so that frame_passed_o keeps the order.
  assign is_needed = decision_i.verdict != VerdictDrop || frame_i.last;
  assign frame_ready_o = is_joined;
  // Without a look at decision_valid_i, so that the register of the decision has a short enable.
  assign decision_ready_o = frame_valid_i && has_room_q && frame_i.last;

  always_comb begin
    logic [8*WindowBytes-1:0] body;
    logic [WindowBytes/2-1:0] mask;
    chosen = '0;
    chosen.verdict = decision_i.verdict;
    chosen.beat = frame_i;
    if (SkipsIdle && !(is_joined && is_reply)) begin
      body = '0;
      mask = '0;
    end else begin
      body = {{8 * (WindowBytes - BodyFirst - BodyBytes) {1'b0}}, decision_i.body, {8 * BodyFirst{1'b0}}};
      mask = {{(WindowBytes - BodyFirst - BodyBytes) / 2{1'b0}}, decision_i.mask, {BodyFirst / 2{1'b0}}};
      for (int unsigned i = 0; i < WindowBeats; i++) begin
        if (place_q[i]) begin
          chosen.body = body[BeatBits*i+:BeatBits];
          if (is_reply) chosen.mask = mask[BeatBytes/2*i+:BeatBytes/2];
        end
      end
      chosen.is_native = decision_i.is_native;
      chosen.ttl = decision_i.ttl;
      chosen.ip_check = be16(decision_i.ip_check);
      chosen.udp_check = be16(decision_i.udp_check);
      for (int unsigned kind = 0; kind < Kinds; kind++) begin
        if (is_reply && {decision_i.is_v6, decision_i.is_vlan} == 2'(kind)) begin
          chosen.first[kind]  = place_q[0];
          chosen.second[kind] = place_q[1];
        end
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) place_q <= (WindowBeats + 1)'(1);
    else if (is_joined) begin
      if (frame_i.last) place_q <= (WindowBeats + 1)'(1);
      else place_q <= {|place_q[WindowBeats:WindowBeats-1], place_q[WindowBeats-2:0], 1'b0};
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      chosen_valid_q <= 1'b0;
      rewritten_valid_q <= 1'b0;
      held_q <= '0;
      has_room_q <= 1'b1;
    end else begin
      chosen_valid_q <= is_joined && is_needed;
      rewritten_valid_q <= chosen_valid_q;
      held_q <= held_q + CountBits'(is_joined && is_needed) - CountBits'(out_valid && out_ready);
      has_room_q <= held_q < CountBits'(OutBeats - 1);
    end
  end

  always_ff @(posedge clk_i) begin
    if (!SkipsIdle || is_joined) chosen_q <= chosen;
    if (!SkipsIdle || chosen_valid_q) rewritten_q <= rewritten;
  end

  // ---- rewriting ----

  // One case for each kind of headers, so that the synthesis sees constants.
  always_comb begin
    int unsigned ip_at, udp_at, payload_at;
    logic [BeatBits-1:0] old, data;
    ip_at = 0;
    udp_at = 0;
    payload_at = 0;
    old = chosen_q.beat.data;
    data = old;
    if (!SkipsIdle || (chosen_valid_q && chosen_q.verdict == VerdictReply)) begin
      for (int unsigned i = 0; i < BeatBytes; i++) begin
        if (chosen_q.mask[i/2]) data[8*i+:8] = chosen_q.body[8*i+:8];
      end
      if (chosen_q.first != '0) {data[0+:48], data[48+:48]} = {old[48+:48], old[0+:48]};
      for (int unsigned kind = 0; kind < Kinds; kind++) begin
        ip_at = EthBytes + VlanBytes * (kind % 2);
        udp_at = ip_at + (kind / 2 == 1 ? Ipv6Bytes : Ipv4Bytes);
        payload_at = udp_at + UdpBytes;
        if (chosen_q.first[kind]) begin
          // Addresses and ports change places. All of them are in the first beat, also behind a VLAN tag.
          if (kind / 2 == 1) begin
            data[8*(ip_at+8)+:128] = old[8*(ip_at+24)+:128];
            data[8*(ip_at+24)+:128] = old[8*(ip_at+8)+:128];
            data[8*(ip_at+7)+:8] = chosen_q.ttl;
          end else begin
            data[8*(ip_at+12)+:32] = old[8*(ip_at+16)+:32];
            data[8*(ip_at+16)+:32] = old[8*(ip_at+12)+:32];
            data[8*(ip_at+8)+:8] = chosen_q.ttl;
            data[8*(ip_at+10)+:16] = chosen_q.ip_check;
          end
          data[8*udp_at+:16] = old[8*(udp_at+2)+:16];
          data[8*(udp_at+2)+:16] = old[8*udp_at+:16];
        end
        for (int unsigned beat = 0; beat < 2; beat++) begin
          if (beat == 0 ? chosen_q.first[kind] : chosen_q.second[kind]) begin
            if ((payload_at - 2) / BeatBytes == beat) data[8*((payload_at-2)%BeatBytes)+:16] = chosen_q.udp_check;
            if (chosen_q.is_native && (payload_at + NativeHeaderOpAt) / BeatBytes == beat) begin
              data[8*((payload_at+NativeHeaderOpAt)%BeatBytes)+:8] =
                  old[8*((payload_at+NativeHeaderOpAt)%BeatBytes)+:8] | NativeReplyBit;
            end
          end
        end
      end
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
