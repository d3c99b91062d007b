// SPDX-License-Identifier: Apache-2.0
//
// Proof of the bytes of a reply in ls_emit, at full width: addresses and ports are exchanged; hop limit, checksums,
// reply bit and the payload words that the mask names are those of the decision; every other byte is unchanged.
// The decision is not patched, whatever patch is there; ls_emit_proof shows that a patch replaces words of the frame
// before this rewriting.
//
// Assumed: the mask names no word before the payload, nor the operation of the native format (ls_spv_reply gives only
// such masks).
//
// The statements are about one cycle and all states, so one step is a complete proof: the registers between the first
// three stages of the module hold what the stage before them has given them, so each of these stages is assumed to work
// on the output of the one before. There is one instance of the module for each kind of reply, and one run for each
// beat, so that the solver has simple cases. The offsets are those of Ethernet, 802.1Q, IPv4, IPv6 and UDP.

module ls_emit_bytes_proof
  import ls_pkg::*;
  import ls_pipeline_pkg::*;
#(
    parameter int unsigned Beat = 0  // number of the beat in its frame; 4: all later ones
) (
    input logic clk_i,

    input decision_t decision_i,
    input beat_t frame_i,
    input logic patch_valid_i,
    input patch_t patch_i
);

  for (genvar kind = 0; kind < 8; kind++) begin : gen_kind
    localparam bit IsV6 = kind % 2 == 1;
    localparam bit IsVlan = kind / 2 % 2 == 1;
    localparam bit IsNative = kind / 4 % 2 == 1;
    localparam int unsigned Ip = IsVlan ? 18 : 14;
    localparam int unsigned Source = IsV6 ? Ip + 8 : Ip + 12;
    localparam int unsigned AddressBytes = IsV6 ? 16 : 4;
    localparam int unsigned HopLimit = IsV6 ? Ip + 7 : Ip + 8;
    localparam int unsigned Udp = IsV6 ? Ip + 40 : Ip + 20;
    localparam int unsigned Payload = Udp + 8;

    decision_t decision;
    always_comb begin
      decision = decision_i;
      decision.verdict = VerdictReply;
      decision.is_v6 = IsV6;
      decision.is_vlan = IsVlan;
      decision.is_native = IsNative;
      decision.is_patched = 1'b0;
      // No word before the payload.
      for (int unsigned i = 0; i < (Payload - 42) / 2; i++) decision.mask[i] = 1'b0;
      if (IsNative) decision.mask[(Payload-42)/2+1] = 1'b0;
    end

    ls_emit u_dut (
        .clk_i,
        .rst_ni(1'b1),
        .decision_valid_i(1'b1),
        .decision_ready_o(),
        .decision_i(decision),
        .frame_valid_i(1'b1),
        .frame_ready_o(),
        .frame_i,
        .patch_valid_i,
        .patch_ready_o(),
        .patch_i,
        .network_valid_o(),
        .network_ready_i(1'b1),
        .network_o(),
        .host_valid_o(),
        .host_ready_i(1'b1),
        .host_o(),
        .frame_passed_o(),
        .passed_verdict_o()
    );

    logic [BeatBits-1:0] old_data, new_data;
    assign old_data = frame_i.data;
    assign new_data = u_dut.rewritten.beat.data;

    always_comb begin
      assume (u_dut.place_q == 5'd1 << Beat);
      assume (u_dut.joined_q == u_dut.joined_d);
      assume (u_dut.chosen_q == u_dut.chosen);
      assert (u_dut.rewritten.beat.last == frame_i.last && u_dut.rewritten.beat.keep == frame_i.keep);
      if (Beat == 0) begin
        assert (new_data[0+:48] == old_data[48+:48] && new_data[48+:48] == old_data[0+:48]);
        assert (new_data[8*Source+:8*AddressBytes] == old_data[8*(Source+AddressBytes)+:8*AddressBytes]);
        assert (new_data[8*(Source+AddressBytes)+:8*AddressBytes] == old_data[8*Source+:8*AddressBytes]);
        assert (new_data[8*Udp+:16] == old_data[8*(Udp+2)+:16] && new_data[8*(Udp+2)+:16] == old_data[8*Udp+:16]);
      end
    end

    // All other bytes; `n` is the place in the frame.
    for (genvar n = Beat == 0 ? 12 : 64 * Beat; n < 64 * Beat + 64; n++) begin : gen_byte
      localparam bit IsAddress = (n >= Source && n < Source + 2 * AddressBytes) || (n >= Udp && n < Udp + 4);
      logic [7:0] expected;
      localparam int unsigned At = n < Payload ? 0 : (n >= 42 + BodyBytes ? 0 : n - 42);
      if (n == HopLimit) assign expected = decision_i.ttl;
      else if (n == Ip + 10 && !IsV6) assign expected = decision_i.ip_check[15:8];
      else if (n == Ip + 11 && !IsV6) assign expected = decision_i.ip_check[7:0];
      else if (n == Udp + 6) assign expected = decision_i.udp_check[15:8];
      else if (n == Udp + 7) assign expected = decision_i.udp_check[7:0];
      else if (n == Payload + 3 && IsNative) assign expected = old_data[8*(n%64)+:8] | 8'h80;
      else if (n >= Payload && n < 42 + BodyBytes) begin : gen_payload
        assign expected = decision.mask[At/2] ? decision_i.body[8*At+:8] : old_data[8*(n%64)+:8];
      end
      else assign expected = old_data[8*(n%64)+:8];
      if (!IsAddress) begin : gen_check
        always_comb assert (new_data[8*(n%64)+:8] == expected);
      end
    end
  end

endmodule
