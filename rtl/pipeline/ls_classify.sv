// SPDX-License-Identifier: Apache-2.0
//
// Frame rules: finds the UDP datagram of a frame and decides whether a service may answer it. The RTL twin of ls_parse
// and ls_route in xdp/parse.h and xdp/root.h, and of `FrameHandler` in crates/fastpath/src/frame.rs.
//
// Interface: one window in each cycle, no back-pressure. Each window gives exactly one datagram, in order.
// endpoint_i may change only while no frame is in the pipeline.
// Latency: four cycles. Throughput: one frame in each cycle.

module ls_classify
  import ls_pkg::*;
  import ls_pipeline_pkg::*;
(
    input logic clk_i,
    input logic rst_ni,

    input endpoint_t endpoint_i,

    input logic valid_i,
    input window_t window_i,

    output logic valid_o,
    output datagram_t datagram_o
);

  localparam logic [15:0] EtherTypeIpv4 = 16'h0800;
  localparam logic [15:0] EtherTypeIpv6 = 16'h86dd;
  localparam logic [15:0] EtherTypeVlan = 16'h8100;
  localparam logic [15:0] EtherTypeQinq = 16'h88a8;
  localparam logic [7:0] ProtocolUdp = 8'd17;
  localparam logic [15:0] FragmentMask = 16'h3fff;
  localparam int unsigned L4Bytes = UdpBytes + PayloadBytesMax;
  localparam int unsigned L3Bytes = Ipv6Bytes + L4Bytes;

  // Stage 1: skips one VLAN tag.
  typedef struct packed {
    logic is_long_enough;  // for an Ethernet header and a tag
    logic is_vlan;
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

  // Stage 3: compares addresses, ports and lengths.
  typedef struct packed {
    logic is_datagram;
    logic is_for_service;
    logic is_port_refused;
    logic is_source_refused;
    logic is_v6;
    logic is_vlan;
    logic [7:0] ttl;
    logic [15:0] ip_check;
    logic [127:0] source;
    logic [15:0] udp_bytes;
    logic [15:0] udp_check;
    logic is_native_magic;
    logic [3:0][18:0] address_sums;
    logic [18:0] udp_sum;  // of ports, both lengths and the protocol
    logic [1:0][18:0] native_sums;
    logic [8*PayloadBytesMax-1:0] payload;
  } checked_t;

  logic valid1_q, valid2_q, valid3_q;
  l3_t l3_d, l3_q;
  l4_t l4_d, l4_q;
  checked_t checked_d, checked_q;
  datagram_t datagram_d;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      valid1_q <= 1'b0;
      valid2_q <= 1'b0;
      valid3_q <= 1'b0;
      valid_o  <= 1'b0;
    end else begin
      valid1_q <= valid_i;
      valid2_q <= valid1_q;
      valid3_q <= valid2_q;
      valid_o  <= valid3_q;
    end
  end

  always_ff @(posedge clk_i) begin
    l3_q <= l3_d;
    l4_q <= l4_d;
    checked_q <= checked_d;
    datagram_o <= datagram_d;
  end

  // ---- stage 1 ----

  logic [15:0] outer_type;
  logic [8*(EthBytes+VlanBytes)-1:0] eth;
  assign eth = window_i.data[8*(EthBytes+VlanBytes)-1:0];
  assign outer_type = be16(eth[8*12+:16]);

  always_comb begin
    l3_d.is_vlan = outer_type inside {EtherTypeVlan, EtherTypeQinq};
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
  end

  // ---- stage 2 ----

  logic is_ipv4, is_ipv6;
  assign is_ipv4 = l3_q.ethertype == EtherTypeIpv4 && l3_q.bytes >= 16'(Ipv4Bytes + UdpBytes) &&
                   l3_q.data[7:0] == 8'h45 && (be16(l3_q.data[8*6+:16]) & FragmentMask) == '0 &&
                   l3_q.data[8*9+:8] == ProtocolUdp;
  assign is_ipv6 = l3_q.ethertype == EtherTypeIpv6 && l3_q.bytes >= 16'(Ipv6Bytes + UdpBytes) &&
                   l3_q.data[7:4] == 4'd6 && l3_q.data[8*6+:8] == ProtocolUdp;

  always_comb begin
    l4_d.is_udp = l3_q.is_long_enough && (is_ipv4 || is_ipv6);
    l4_d.is_v6 = l3_q.ethertype == EtherTypeIpv6;
    l4_d.is_vlan = l3_q.is_vlan;
    l4_d.is_own_mac = l3_q.is_own_mac;
    l4_d.is_multicast_source = l3_q.is_multicast_source;
    l4_d.ip_check = be16(l3_q.data[8*10+:16]);
    if (l4_d.is_v6) begin
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

  // ---- stage 3 ----

  logic [15:0] source_port, destination_port, udp_bytes;
  assign source_port = be16(l4_q.data[8*0+:16]);
  assign destination_port = be16(l4_q.data[8*2+:16]);
  assign udp_bytes = be16(l4_q.data[8*4+:16]);

  logic is_v4_answered, is_v6_answered, is_v4_refused, is_v6_refused;
  always_comb begin
    logic is_own, is_broadcast;
    logic [7:0] first;
    first = l4_q.source[7:0];
    is_v4_answered = 1'b0;
    is_own = 1'b0;
    is_broadcast = &l4_q.source[31:0];
    for (int unsigned i = 0; i < RegisterV4Count; i++) begin
      is_v4_answered |= endpoint_i.v4_answered[i] && endpoint_i.v4[i] == l4_q.destination[31:0];
      is_own |= endpoint_i.v4_own[i] && endpoint_i.v4[i] == l4_q.source[31:0];
      is_broadcast |= endpoint_i.v4_own[i] && endpoint_i.v4_broadcast[i] == l4_q.source[31:0];
    end
    is_v4_refused = l4_q.source[31:0] == '0 || first[7:4] == 4'he || is_broadcast ||
                    (!endpoint_i.loopback && (first == 8'd127 || is_own));
  end

  always_comb begin
    logic is_own;
    is_v6_answered = 1'b0;
    is_own = 1'b0;
    for (int unsigned i = 0; i < RegisterV6Count; i++) begin
      is_v6_answered |= endpoint_i.v6_answered[i] && endpoint_i.v6[i] == l4_q.destination;
      is_own |= endpoint_i.v6_own[i] && endpoint_i.v6[i] == l4_q.source;
    end
    is_v6_refused = l4_q.source == '0 || l4_q.source[7:0] == 8'hff ||
                    (!endpoint_i.loopback && (l4_q.source == {8'd1, 120'd0} || is_own));
  end

  always_comb begin
    logic [18:0] sum;
    logic [8*PayloadBytesMax-1:0] payload;
    payload = l4_q.data[8*UdpBytes+:8*PayloadBytesMax];
    checked_d.is_datagram = l4_q.is_udp && udp_bytes >= 16'(UdpBytes) && udp_bytes <= l4_q.bytes &&
        17'(udp_bytes) + (l4_q.is_v6 ? 17'd0 : 17'(Ipv4Bytes)) == 17'(l4_q.ip_payload_bytes);
    checked_d.is_for_service = destination_port == endpoint_i.port && destination_port != '0 &&
        l4_q.is_own_mac && (l4_q.is_v6 ? is_v6_answered : is_v4_answered);
    checked_d.is_port_refused = source_port == '0 || source_port == destination_port || is_service_port(source_port);
    checked_d.is_source_refused = l4_q.is_multicast_source || (l4_q.is_v6 ? is_v6_refused : is_v4_refused);
    checked_d.is_v6 = l4_q.is_v6;
    checked_d.is_vlan = l4_q.is_vlan;
    checked_d.ttl = l4_q.ttl;
    checked_d.ip_check = l4_q.ip_check;
    checked_d.udp_bytes = udp_bytes;
    checked_d.is_native_magic = be16(payload[15:0]) == NativeMagic;
    checked_d.payload = payload;
    checked_d.source = l4_q.source;
    checked_d.udp_check = be16(l4_q.data[8*6+:16]);
    // Sums of at most four 16-bit words each: addresses, ports and lengths, and the native header of the reply.
    for (int unsigned i = 0; i < 4; i++) begin
      sum = '0;
      for (int unsigned j = 0; j < 2; j++) begin
        sum = sum + 19'(be16(l4_q.source[32*i+16*j+:16])) + 19'(be16(l4_q.destination[32*i+16*j+:16]));
      end
      checked_d.address_sums[i] = sum;
    end
    checked_d.udp_sum = 19'(source_port) + 19'(destination_port) + {2'd0, udp_bytes, 1'b0} + 19'(ProtocolUdp);
    for (int unsigned i = 0; i < 2; i++) begin
      sum = '0;
      for (int unsigned j = 0; j < 4; j++) begin
        sum = sum + 19'(be16(payload[64*i+16*j+:16] |
                             (i == 0 && j == NativeHeaderOpAt / 2 ? {NativeReplyBit, 8'd0} : 16'd0)));
      end
      checked_d.native_sums[i] = sum;
    end
  end

  // ---- stage 4 ----

  always_comb begin
    logic [15:0] payload_bytes;
    logic is_native;
    logic [20:0] sum;
    payload_bytes = checked_q.udp_bytes - 16'(UdpBytes);
    is_native = payload_bytes >= 16'(NativeHeaderBytes) && checked_q.is_native_magic;
    sum = '0;
    for (int unsigned i = 0; i < 4; i++) sum = sum + 21'(checked_q.address_sums[i]);
    datagram_d.headers.partial_sum = fold(32'(sum) + 32'(checked_q.udp_sum));
    datagram_d.headers.native_sum = fold(32'(checked_q.native_sums[0]) + 32'(checked_q.native_sums[1]));
    datagram_d.pseudo_sum = fold(32'(sum) + 32'(checked_q.udp_bytes) + 32'(ProtocolUdp));
    datagram_d.source = checked_q.source;
    datagram_d.udp_check = checked_q.udp_check;
    datagram_d.headers.is_v6 = checked_q.is_v6;
    datagram_d.headers.is_vlan = checked_q.is_vlan;
    datagram_d.headers.ttl = checked_q.ttl;
    datagram_d.headers.ip_check = checked_q.ip_check;
    datagram_d.payload_bytes = payload_bytes;
    datagram_d.payload = checked_q.payload;
    datagram_d.is_final = 1'b1;
    datagram_d.verdict = VerdictForward;
    datagram_d.reason = DropSourcePort;
    if (checked_q.is_datagram && checked_q.is_for_service) begin
      if (checked_q.is_port_refused) begin
        datagram_d.verdict = VerdictDrop;
      end else if (checked_q.is_source_refused) begin
        datagram_d.verdict = VerdictDrop;
        datagram_d.reason  = DropSourceAddress;
      end else begin
        // Without a hop left for the reply, the host gets the frame, and drops and counts it.
        datagram_d.is_final = reply_ttl(is_native, checked_q.ttl) == '0;
      end
    end
  end

endmodule
