// SPDX-License-Identifier: Apache-2.0
//
// Frame rules: finds the UDP datagram of a frame and decides whether a service may answer it. The RTL twin of ls_parse
// and ls_route in xdp/parse.h and xdp/root.h, and of `FrameHandler` in crates/fastpath/src/frame.rs.
//
// Interface: one window in each cycle, no back-pressure. Each window gives exactly one datagram, in order.
// endpoint_i may change only while no frame is in the pipeline.
// Latency: seven cycles. Throughput: one frame in each cycle.

module ls_classify
  import ls_pkg::*;
  import ls_pipeline_pkg::*;
#(
    parameter int unsigned RamCycles = 6  // see ls_delay
) (
    input logic clk_i,
    input logic rst_ni,

    input endpoint_t endpoint_i,

    input logic valid_i,
    input window_t window_i,

    output logic valid_o,
    output datagram_t datagram_o
);

  localparam logic [7:0] ProtocolUdp = 8'd17;
  localparam logic [15:0] FragmentMask = 16'h3fff;
  localparam int unsigned L4Bytes = UdpBytes + PayloadBytesMax;
  localparam int unsigned L3Bytes = Ipv6Bytes + L4Bytes;

  // Stage 1: skips one VLAN tag.
  typedef struct packed {
    logic is_long_enough;  // for an Ethernet header and a tag
    logic is_vlan;
    logic is_v6;
    logic is_own_mac;
    logic is_multicast_source;
    logic [15:0] ethertype;
    logic [15:0] bytes;  // of the frame, from the IP header on
    logic [8*L3Bytes-1:0] data;
  } l3_t;

  // Stage 2: skips the IP header.
  typedef struct packed {
    logic is_udp;  // IPv4 or IPv6 header as the parser supports it, and a whole UDP header in the frame
    logic is_v6;
    logic is_vlan;
    logic is_own_mac;
    logic is_multicast_source;
    logic [15:0] ip_payload_bytes;  // IPv4: total length
    logic [15:0] bytes;  // of the frame, from the UDP header on
    logic [7:0] ttl;
    logic [15:0] ip_check;
    logic [127:0] source;  // IPv4 in the low 32 bits, with zeros above
    logic [127:0] destination;
    logic [8*L4Bytes-1:0] data;
  } l4_t;

  localparam int unsigned V6Parts = 4;
  localparam int unsigned V6PartBits = 128 / V6Parts;

  // Stage 3: compares addresses, ports and lengths, each by itself, and adds pairs of 16-bit words.
  typedef struct packed {
    logic is_udp;
    logic is_v6;
    logic is_own_mac;
    logic is_native_magic;
    logic is_port;  // the service's port
    logic is_port_refused;
    logic is_source_special;  // a source that is never answered, apart from address 0
    logic is_source_v4_loopback;
    logic [3:0] is_source_zero;  // bytes 0 to 3, 4 to 7, 8 to 11, 12 to 14
    logic [1:0] source_end;  // byte 15 is 0, is 1
    logic [RegisterV4Count-1:0] v4_answered;
    logic [RegisterV4Count-1:0] v4_own;
    logic [RegisterV4Count-1:0] v4_broadcast;
    logic [RegisterV6Count-1:0][V6Parts-1:0] v6_answered;  // by parts of the address
    logic [RegisterV6Count-1:0][V6Parts-1:0] v6_own;
    logic [7:0] ttl;
    logic [15:0] udp_bytes;
    logic [15:0] bytes;
    logic [16:0] ip_bytes;  // as the UDP length says
    logic [15:0] ip_payload_bytes;
    logic [7:0][16:0] address_sums;
    logic [1:0][17:0] udp_sums;  // of the ports; of both lengths and the protocol
    logic [3:0][16:0] native_sums;
  } compared_t;

  // Stage 4: joins the comparisons, and adds sums of four words.
  typedef struct packed {
    logic is_datagram;
    logic is_for_service;
    logic is_port_refused;
    logic is_source_refused;
    logic is_native;
    logic [7:0] ttl;
    logic [15:0] udp_bytes;
    logic [3:0][17:0] address_sums;
    logic [18:0] udp_sum;
    logic [1:0][17:0] native_sums;
  } checked_t;

  // Stages 5 and 6: outcome, and sums that are not folded yet.
  typedef struct packed {
    logic is_final;
    verdict_e verdict;
    drop_e reason;
    logic [15:0] payload_bytes;
    logic [1:0][18:0] address_sums;
    logic [18:0] udp_sum;
    logic [16:0] pseudo_part;  // length and protocol
    logic [18:0] native_sum;
  } decided_t;

  typedef struct packed {
    logic is_final;
    verdict_e verdict;
    drop_e reason;
    logic [15:0] payload_bytes;
    logic [20:0] partial_sum;
    logic [20:0] pseudo_sum;
    logic [18:0] native_sum;
  } summed_t;

  // What no stage after the second one changes.
  typedef struct packed {
    logic is_v6;
    logic is_vlan;
    logic [7:0] ttl;
    logic [15:0] ip_check;
    logic [127:0] source;
    logic [15:0] udp_check;
    logic [8*PayloadBytesMax-1:0] payload;
  } carried_t;

  localparam int unsigned Stages = 7;

  logic [Stages-1:0] valid_q;
  l3_t l3_d, l3_q;
  l4_t l4_d, l4_q;
  compared_t compared_d, compared_q;
  checked_t checked_d, checked_q;
  decided_t decided_d, decided_q;
  summed_t summed_d, summed_q;
  carried_t carried_d, carried;

  assign valid_o = valid_q[Stages-1];

  always_ff @(posedge clk_i) begin
    if (!rst_ni) valid_q <= '0;
    else valid_q <= {valid_q[Stages-2:0], valid_i};
  end

  always_ff @(posedge clk_i) begin
    if (!SkipsIdle || valid_i) l3_q <= l3_d;
    if (!SkipsIdle || valid_q[0]) l4_q <= l4_d;
    if (!SkipsIdle || valid_q[1]) compared_q <= compared_d;
    if (!SkipsIdle || valid_q[2]) checked_q <= checked_d;
    if (!SkipsIdle || valid_q[3]) decided_q <= decided_d;
    if (!SkipsIdle || valid_q[4]) summed_q <= summed_d;
  end

  // ---- stage 1 ----

  logic [15:0] outer_type;
  logic [8*(EthBytes+VlanBytes)-1:0] eth;
  assign eth = window_i.data[8*(EthBytes+VlanBytes)-1:0];
  assign outer_type = be16(eth[8*12+:16]);

  always_comb begin
    if (SkipsIdle && !valid_i) begin
      l3_d = '0;
    end else begin
      l3_d.is_vlan = window_i.is_vlan;
      l3_d.is_long_enough = !window_i.is_oversize && window_i.bytes >= 16'(EthBytes + VlanBytes);
      l3_d.is_own_mac = eth[47:0] == endpoint_i.mac;
      l3_d.is_multicast_source = eth[8*6];
      if (l3_d.is_vlan) begin
        l3_d.ethertype = be16(eth[8*16+:16]);
        l3_d.bytes = window_i.bytes - 16'(EthBytes + VlanBytes);
        l3_d.data = window_i.data[8*(EthBytes+VlanBytes)+:8*L3Bytes];
      end else begin
        l3_d.ethertype = outer_type;
        l3_d.bytes = window_i.bytes - 16'(EthBytes);
        l3_d.data = window_i.data[8*EthBytes+:8*L3Bytes];
      end
      l3_d.is_v6 = l3_d.ethertype == EtherTypeIpv6;
    end
  end

  // ---- stage 2 ----

  logic is_ipv4, is_ipv6;
  assign is_ipv4 = l3_q.ethertype == EtherTypeIpv4 && l3_q.bytes >= 16'(Ipv4Bytes + UdpBytes) &&
                   l3_q.data[7:0] == 8'h45 && (be16(l3_q.data[8*6+:16]) & FragmentMask) == '0 &&
                   l3_q.data[8*9+:8] == ProtocolUdp;
  assign is_ipv6 = l3_q.is_v6 && l3_q.bytes >= 16'(Ipv6Bytes + UdpBytes) &&
                   l3_q.data[7:4] == 4'd6 && l3_q.data[8*6+:8] == ProtocolUdp;

  always_comb begin
    if (SkipsIdle && !valid_q[0]) begin
      l4_d = '0;
    end else begin
      l4_d.is_udp = l3_q.is_long_enough && (is_ipv4 || is_ipv6);
      l4_d.is_v6 = l3_q.is_v6;
      l4_d.is_vlan = l3_q.is_vlan;
      l4_d.is_own_mac = l3_q.is_own_mac;
      l4_d.is_multicast_source = l3_q.is_multicast_source;
      l4_d.ip_check = be16(l3_q.data[8*10+:16]);
      if (l3_q.is_v6) begin
        l4_d.ip_payload_bytes = be16(l3_q.data[8*4+:16]);
        l4_d.bytes = l3_q.bytes - 16'(Ipv6Bytes);
        l4_d.ttl = l3_q.data[8*7+:8];
        l4_d.source = l3_q.data[8*8+:128];
        l4_d.destination = l3_q.data[8*24+:128];
        l4_d.data = l3_q.data[8*Ipv6Bytes+:8*L4Bytes];
      end else begin
        l4_d.ip_payload_bytes = be16(l3_q.data[8*2+:16]);
        l4_d.bytes = l3_q.bytes - 16'(Ipv4Bytes);
        l4_d.ttl = l3_q.data[8*8+:8];
        l4_d.source = 128'(l3_q.data[8*12+:32]);
        l4_d.destination = 128'(l3_q.data[8*16+:32]);
        l4_d.data = l3_q.data[8*Ipv4Bytes+:8*L4Bytes];
      end
    end
  end

  // ---- stage 3 ----

  logic [15:0] source_port, destination_port, udp_bytes;
  assign source_port = be16(l4_q.data[8*0+:16]);
  assign destination_port = be16(l4_q.data[8*2+:16]);
  assign udp_bytes = be16(l4_q.data[8*4+:16]);

  logic [8*PayloadBytesMax-1:0] payload;
  assign payload = l4_q.data[8*UdpBytes+:8*PayloadBytesMax];

  always_comb begin
    logic [31:0] v4_source;
    v4_source = l4_q.source[31:0];
    if (SkipsIdle && !valid_q[1]) begin
      compared_d = '0;
    end else begin
      compared_d.is_udp = l4_q.is_udp;
      compared_d.is_v6 = l4_q.is_v6;
      compared_d.is_own_mac = l4_q.is_own_mac;
      compared_d.is_native_magic = be16(payload[15:0]) == NativeMagic;
      compared_d.is_port = destination_port == endpoint_i.port && destination_port != '0;
      compared_d.is_port_refused = source_port == '0 || source_port == destination_port || is_service_port(source_port);
      for (int unsigned i = 0; i < RegisterV4Count; i++) begin
        compared_d.v4_answered[i] = endpoint_i.v4_answered[i] && endpoint_i.v4[i] == l4_q.destination[31:0];
        compared_d.v4_own[i] = endpoint_i.v4_own[i] && endpoint_i.v4[i] == v4_source;
        compared_d.v4_broadcast[i] = endpoint_i.v4_own[i] && endpoint_i.v4_broadcast[i] == v4_source;
      end
      for (int unsigned i = 0; i < RegisterV6Count; i++) begin
        for (int unsigned part = 0; part < V6Parts; part++) begin
          compared_d.v6_answered[i][part] = endpoint_i.v6_answered[i] &&
              endpoint_i.v6[i][V6PartBits*part+:V6PartBits] == l4_q.destination[V6PartBits*part+:V6PartBits];
          compared_d.v6_own[i][part] = endpoint_i.v6_own[i] &&
              endpoint_i.v6[i][V6PartBits*part+:V6PartBits] == l4_q.source[V6PartBits*part+:V6PartBits];
        end
      end
      if (l4_q.is_v6) begin
        compared_d.is_source_special = l4_q.source[7:0] == 8'hff;
        compared_d.is_source_v4_loopback = 1'b0;
      end else begin
        compared_d.is_source_special = v4_source[7:4] == 4'he || (&v4_source);
        compared_d.is_source_v4_loopback = v4_source[7:0] == 8'd127;
      end
      // The address of IPv4 has zeros above, so both kinds share the comparison with 0.
      for (int unsigned i = 0; i < 3; i++) compared_d.is_source_zero[i] = l4_q.source[32*i+:32] == '0;
      compared_d.is_source_zero[3] = l4_q.source[96+:24] == '0;
      compared_d.source_end = {l4_q.source[127:120] == 8'd1, l4_q.source[127:120] == 8'd0};
      if (l4_q.is_multicast_source) compared_d.is_source_special = 1'b1;
      compared_d.ttl = l4_q.ttl;
      compared_d.udp_bytes = udp_bytes;
      compared_d.bytes = l4_q.bytes;
      compared_d.ip_bytes = 17'(udp_bytes) + (l4_q.is_v6 ? 17'd0 : 17'(Ipv4Bytes));
      compared_d.ip_payload_bytes = l4_q.ip_payload_bytes;
      for (int unsigned i = 0; i < 8; i++) begin
        compared_d.address_sums[i] = 17'(be16(l4_q.source[16*i+:16])) + 17'(be16(l4_q.destination[16*i+:16]));
      end
      compared_d.udp_sums[0] = 18'(source_port) + 18'(destination_port);
      compared_d.udp_sums[1] = {1'd0, udp_bytes, 1'b0} + 18'(ProtocolUdp);
      // The native header of the reply has the reply bit.
      for (int unsigned i = 0; i < 4; i++) begin
        compared_d.native_sums[i] =
            17'(be16(payload[32*i+:16])) +
            17'(be16(payload[32*i+16+:16] | (2 * i + 1 == NativeHeaderOpAt / 2 ? {NativeReplyBit, 8'd0} : 16'd0)));
      end
    end
  end

  assign carried_d = '{
          is_v6: l4_q.is_v6,
          is_vlan: l4_q.is_vlan,
          ttl: l4_q.ttl,
          ip_check: l4_q.ip_check,
          source: l4_q.source,
          udp_check: be16(l4_q.data[8*6+:16]),
          payload: payload
      };

  ls_delay #(
      .T(carried_t),
      .Cycles(Stages - 2),
      .RamCycles(RamCycles),
      .SkipsIdle(SkipsIdle)
  ) u_carried (
      .clk_i,
      .valid_i(valid_q[1]),
      .data_i(carried_d),
      .data_o(carried)
  );

  // ---- stage 4 ----

  always_comb begin
    logic is_own, is_answered, is_unspecified, is_loopback;
    logic [RegisterV6Count-1:0] v6_own, v6_answered;
    for (int unsigned i = 0; i < RegisterV6Count; i++) begin
      v6_own[i] = &compared_q.v6_own[i];
      v6_answered[i] = &compared_q.v6_answered[i];
    end
    if (SkipsIdle && !valid_q[2]) begin
      checked_d = '0;
      is_own = 1'b0;
      is_answered = 1'b0;
      is_unspecified = 1'b0;
      is_loopback = 1'b0;
    end else begin
      is_own = compared_q.is_v6 ? |v6_own : |compared_q.v4_own;
      is_answered = compared_q.is_v6 ? |v6_answered : |compared_q.v4_answered;
      checked_d.is_datagram = compared_q.is_udp && compared_q.udp_bytes >= 16'(UdpBytes) &&
          compared_q.udp_bytes <= compared_q.bytes && compared_q.ip_bytes == 17'(compared_q.ip_payload_bytes);
      checked_d.is_for_service = compared_q.is_port && compared_q.is_own_mac && is_answered;
      checked_d.is_port_refused = compared_q.is_port_refused;
      is_unspecified = &compared_q.is_source_zero && compared_q.source_end[0];
      is_loopback = compared_q.is_source_v4_loopback || (&compared_q.is_source_zero && compared_q.source_end[1]);
      checked_d.is_source_refused = compared_q.is_source_special || is_unspecified ||
                                    (!compared_q.is_v6 && |compared_q.v4_broadcast) ||
                                    (!endpoint_i.loopback && (is_loopback || is_own));
      checked_d.is_native = compared_q.udp_bytes >= 16'(UdpBytes + NativeHeaderBytes) && compared_q.is_native_magic;
      checked_d.ttl = compared_q.ttl;
      checked_d.udp_bytes = compared_q.udp_bytes;
      for (int unsigned i = 0; i < 4; i++) begin
        checked_d.address_sums[i] = 18'(compared_q.address_sums[2*i]) + 18'(compared_q.address_sums[2*i+1]);
      end
      checked_d.udp_sum = 19'(compared_q.udp_sums[0]) + 19'(compared_q.udp_sums[1]);
      for (int unsigned i = 0; i < 2; i++) begin
        checked_d.native_sums[i] = 18'(compared_q.native_sums[2*i]) + 18'(compared_q.native_sums[2*i+1]);
      end
    end
  end

  // ---- stage 5 ----

  always_comb begin
    decided_d.payload_bytes = checked_q.udp_bytes - 16'(UdpBytes);
    for (int unsigned i = 0; i < 2; i++) begin
      decided_d.address_sums[i] = 19'(checked_q.address_sums[2*i]) + 19'(checked_q.address_sums[2*i+1]);
    end
    decided_d.udp_sum = checked_q.udp_sum;
    decided_d.pseudo_part = 17'(checked_q.udp_bytes) + 17'(ProtocolUdp);
    decided_d.native_sum = 19'(checked_q.native_sums[0]) + 19'(checked_q.native_sums[1]);
    decided_d.is_final = 1'b1;
    decided_d.verdict = VerdictForward;
    decided_d.reason = DropSourcePort;
    if (checked_q.is_datagram && checked_q.is_for_service) begin
      if (checked_q.is_port_refused) begin
        decided_d.verdict = VerdictDrop;
      end else if (checked_q.is_source_refused) begin
        decided_d.verdict = VerdictDrop;
        decided_d.reason  = DropSourceAddress;
      end else begin
        // Without a hop left for the reply, the host gets the frame, and drops and counts it.
        decided_d.is_final = reply_ttl(checked_q.is_native, checked_q.ttl) == '0;
      end
    end
  end

  // ---- stage 6 ----

  always_comb begin
    logic [20:0] address_sum;
    address_sum = 21'(decided_q.address_sums[0]) + 21'(decided_q.address_sums[1]);
    summed_d.is_final = decided_q.is_final;
    summed_d.verdict = decided_q.verdict;
    summed_d.reason = decided_q.reason;
    summed_d.payload_bytes = decided_q.payload_bytes;
    summed_d.partial_sum = address_sum + 21'(decided_q.udp_sum);
    summed_d.pseudo_sum = address_sum + 21'(decided_q.pseudo_part);
    summed_d.native_sum = decided_q.native_sum;
  end

  // ---- stage 7 ----

  datagram_t folded_q;

  always_ff @(posedge clk_i) begin
    if (!SkipsIdle || valid_q[5]) begin
      folded_q <= '0;
      folded_q.is_final <= summed_q.is_final;
      folded_q.verdict <= summed_q.verdict;
      folded_q.reason <= summed_q.reason;
      folded_q.payload_bytes <= summed_q.payload_bytes;
      folded_q.headers.partial_sum <= fold(32'(summed_q.partial_sum));
      folded_q.headers.native_sum <= fold(32'(summed_q.native_sum));
      folded_q.pseudo_sum <= fold(32'(summed_q.pseudo_sum));
    end
  end

  always_comb begin
    datagram_o = folded_q;
    datagram_o.source = carried.source;
    datagram_o.udp_check = carried.udp_check;
    datagram_o.payload = carried.payload;
    datagram_o.headers.is_v6 = carried.is_v6;
    datagram_o.headers.is_vlan = carried.is_vlan;
    datagram_o.headers.ttl = carried.ttl;
    datagram_o.headers.ip_check = carried.ip_check;
  end

endmodule
