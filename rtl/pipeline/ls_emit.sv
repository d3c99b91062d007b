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
// Latency: one cycle from the later of beat and decision. Throughput: one beat in each cycle.

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

  localparam int unsigned IndexBits = $clog2(WindowBeats + 1);

  typedef struct packed {
    verdict_e verdict;
    beat_t beat;
  } output_t;

  logic [IndexBits-1:0] beat_index_q;  // WindowBeats: after the window
  logic is_joined, out_valid, out_ready, skid_ready, is_needed;
  output_t joined, out;

  // ---- rewriting ----

  // Swaps addresses and ports in the first beat. All of them lie in it, also behind a VLAN tag.
  function automatic logic [BeatBits-1:0] swap(input logic [BeatBits-1:0] data, input logic is_vlan, input logic is_v6);
    logic [BeatBits-1:0] swapped;
    swapped = data;
    swapped[0+:48] = data[48+:48];
    swapped[48+:48] = data[0+:48];
    // One case for each position of the IP header, so that the synthesis sees constants.
    for (int unsigned vlan = 0; vlan < 2; vlan++) begin
      if (is_vlan == (vlan == 1)) begin
        if (is_v6) begin
          swapped[8*(EthBytes+VlanBytes*vlan+8)+:128] = data[8*(EthBytes+VlanBytes*vlan+24)+:128];
          swapped[8*(EthBytes+VlanBytes*vlan+24)+:128] = data[8*(EthBytes+VlanBytes*vlan+8)+:128];
          swapped[8*(EthBytes+VlanBytes*vlan+Ipv6Bytes)+:16] = data[8*(EthBytes+VlanBytes*vlan+Ipv6Bytes+2)+:16];
          swapped[8*(EthBytes+VlanBytes*vlan+Ipv6Bytes+2)+:16] = data[8*(EthBytes+VlanBytes*vlan+Ipv6Bytes)+:16];
        end else begin
          swapped[8*(EthBytes+VlanBytes*vlan+12)+:32] = data[8*(EthBytes+VlanBytes*vlan+16)+:32];
          swapped[8*(EthBytes+VlanBytes*vlan+16)+:32] = data[8*(EthBytes+VlanBytes*vlan+12)+:32];
          swapped[8*(EthBytes+VlanBytes*vlan+Ipv4Bytes)+:16] = data[8*(EthBytes+VlanBytes*vlan+Ipv4Bytes+2)+:16];
          swapped[8*(EthBytes+VlanBytes*vlan+Ipv4Bytes+2)+:16] = data[8*(EthBytes+VlanBytes*vlan+Ipv4Bytes)+:16];
        end
      end
    end
    return swapped;
  endfunction


  logic [BeatBits-1:0] rewritten, body_beat;
  logic [BeatBytes/2-1:0] mask_beat;

  always_comb begin
    int unsigned payload_at, ip_at;
    logic [15:0] udp_check, ip_check;
    logic [8*WindowBytes-1:0] body;
    logic [WindowBytes/2-1:0] mask;
    payload_at = 0;
    ip_at = 0;
    body_beat = '0;
    mask_beat = '0;
    udp_check = '0;
    ip_check  = '0;
    if (SkipsIdle && !(is_joined && decision_i.verdict == VerdictReply)) begin
      body = '0;
      mask = '0;
      rewritten = '0;
    end else begin
      body = {{8 * (WindowBytes - BodyFirst - BodyBytes) {1'b0}}, decision_i.body, {8 * BodyFirst{1'b0}}};
      mask = {{(WindowBytes - BodyFirst - BodyBytes) / 2{1'b0}}, decision_i.mask, {BodyFirst / 2{1'b0}}};
      for (int unsigned i = 0; i < WindowBeats; i++) begin
        if (beat_index_q == IndexBits'(i)) begin
          body_beat = body[BeatBits*i+:BeatBits];
          mask_beat = mask[BeatBytes/2*i+:BeatBytes/2];
        end
      end
      udp_check = be16(decision_i.udp_check);
      ip_check  = be16(decision_i.ip_check);
      rewritten = beat_index_q == 0 ? swap(frame_i.data, decision_i.is_vlan, decision_i.is_v6) : frame_i.data;
      for (int unsigned i = 0; i < BeatBytes; i++) begin
        if (mask_beat[i/2]) rewritten[8*i+:8] = body_beat[8*i+:8];
      end
      // One case for each position of the headers and each beat, so that the synthesis sees constants.
      for (int unsigned kind = 0; kind < 4; kind++) begin
        payload_at = BodyFirst + VlanBytes * (kind % 2) + (Ipv6Bytes - Ipv4Bytes) * (kind / 2);
        ip_at = EthBytes + VlanBytes * (kind % 2);
        if ({decision_i.is_v6, decision_i.is_vlan} == 2'(kind)) begin
          for (int unsigned beat = 0; beat < WindowBeats; beat++) begin
            if (beat_index_q == IndexBits'(beat)) begin
              if (decision_i.is_native && (payload_at + NativeHeaderOpAt) / BeatBytes == beat) begin
                rewritten[8*((payload_at+NativeHeaderOpAt)%BeatBytes)+:8] =
                    frame_i.data[8*((payload_at+NativeHeaderOpAt)%BeatBytes)+:8] | NativeReplyBit;
              end
              if ((payload_at - 2) / BeatBytes == beat) rewritten[8*((payload_at-2)%BeatBytes)+:8] = udp_check[7:0];
              if ((payload_at - 1) / BeatBytes == beat) rewritten[8*((payload_at-1)%BeatBytes)+:8] = udp_check[15:8];
              if (kind / 2 == 1) begin
                if ((ip_at + 7) / BeatBytes == beat) rewritten[8*((ip_at+7)%BeatBytes)+:8] = decision_i.ttl;
              end else begin
                if ((ip_at + 8) / BeatBytes == beat) rewritten[8*((ip_at+8)%BeatBytes)+:8] = decision_i.ttl;
                if ((ip_at + 10) / BeatBytes == beat) rewritten[8*((ip_at+10)%BeatBytes)+:8] = ip_check[7:0];
                if ((ip_at + 11) / BeatBytes == beat) rewritten[8*((ip_at+11)%BeatBytes)+:8] = ip_check[15:8];
              end
            end
          end
        end
      end
    end
  end

  // ---- join ----

  assign is_joined = decision_valid_i && frame_valid_i;
  // Of a dropped frame, only a mark of its last beat goes on, so that frame_passed_o keeps the order.
  assign is_needed = decision_i.verdict != VerdictDrop || frame_i.last;
  assign frame_ready_o = is_joined && (!is_needed || skid_ready);
  assign decision_ready_o = frame_ready_o && frame_i.last;
  assign joined.verdict = decision_i.verdict;
  assign joined.beat.last = frame_i.last;
  assign joined.beat.keep = frame_i.keep;
  assign joined.beat.data = decision_i.verdict == VerdictReply ? rewritten : frame_i.data;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) beat_index_q <= '0;
    else if (frame_ready_o) begin
      if (frame_i.last) beat_index_q <= '0;
      else if (beat_index_q != IndexBits'(WindowBeats)) beat_index_q <= beat_index_q + 1'b1;
    end
  end

  ls_skid #(
      .T(output_t)
  ) u_skid (
      .clk_i,
      .rst_ni,
      .valid_i(is_joined && is_needed),
      .ready_o(skid_ready),
      .data_i (joined),
      .valid_o(out_valid),
      .ready_i(out_ready),
      .data_o (out)
  );

  // ---- outputs ----

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

endmodule
