// SPDX-License-Identifier: Apache-2.0
//
// Proof of ls_classify: each window gives exactly one datagram, in order, after four cycles, and
// - a frame is open to an answer only if it is a whole, unfragmented UDP datagram without IP options for the own MAC
//   address, an answered address and the port of the service; from a source port that is neither 0, nor that of a
//   Lineside service, nor the destination port; from a source that is neither unspecified, multicast, broadcast, nor,
//   except on lo, loopback or own; and if its reply has a hop left;
// - a frame is dropped only if it is such a datagram, but for its source; with the right reason;
// - all other frames are forwarded, and payload and length of an open one are those of the frame.
// Bytes after the end of the frame take any value. The offsets are those of Ethernet, 802.1Q, IPv4, IPv6 and UDP.
//
// Narrow: of the payload, its first four bytes are free; two registers of each kind of address are used; of an IPv6
// address the first and the last byte are free; the rest is 0. Assumed: the endpoint does not change.

module ls_classify_proof
  import ls_pkg::*;
  import ls_pipeline_pkg::*;
(
    input logic clk_i,
    input logic rst_ni,

    input logic valid_i,
    input logic is_oversize_i,
    input logic [15:0] bytes_i,
    input logic [8*70-1:0] data_i
);

  localparam int unsigned Latency = 4;

  // ---- environment ----

  logic [47:0] mac_q;
  logic loopback_q;
  logic [1:0] v4_own_q, v4_answered_q, v6_own_q, v6_answered_q;
  logic [1:0][31:0] v4_q, broadcast_q;
  logic [1:0][15:0] v6_q;
  logic [15:0] port_q;

  // The registers keep their free initial contents.
  always_ff @(posedge clk_i) begin
    mac_q <= mac_q;
    loopback_q <= loopback_q;
    v4_own_q <= v4_own_q;
    v4_answered_q <= v4_answered_q;
    v6_own_q <= v6_own_q;
    v6_answered_q <= v6_answered_q;
    v4_q <= v4_q;
    broadcast_q <= broadcast_q;
    v6_q <= v6_q;
    port_q <= port_q;
  end

  endpoint_t endpoint;
  always_comb begin
    endpoint = '0;
    endpoint.mac = mac_q;
    endpoint.loopback = loopback_q;
    endpoint.v4_own[1:0] = v4_own_q;
    endpoint.v4_answered[1:0] = v4_answered_q;
    endpoint.v6_own[1:0] = v6_own_q;
    endpoint.v6_answered[1:0] = v6_answered_q;
    for (int unsigned i = 0; i < 2; i++) begin
      endpoint.v4[i] = v4_q[i];
      endpoint.v4_broadcast[i] = broadcast_q[i];
      endpoint.v6[i] = {v6_q[i][15:8], 112'd0, v6_q[i][7:0]};
    end
    endpoint.spv_port = port_q;
  end

  logic is_tagged, is_v4, is_v6;
  logic [8*70-1:0] frame;  // without its tag, so that the offsets are constants
  window_t window;
  assign is_tagged = {data_i[8*12+:8], data_i[8*13+:8]} inside {16'h8100, 16'h88a8};
  assign frame = is_tagged ? data_i >> 32 : data_i;
  assign is_v4 = {frame[8*12+:8], frame[8*13+:8]} == 16'h0800;
  assign is_v6 = {frame[8*12+:8], frame[8*13+:8]} == 16'h86dd;
  assign window = '{is_oversize: is_oversize_i, bytes: bytes_i, data: (8 * WindowBytes)'(data_i)};

  logic valid;
  datagram_t datagram;

  ls_classify u_dut (
      .clk_i,
      .rst_ni,
      .endpoint_i(endpoint),
      .valid_i,
      .window_i  (window),
      .valid_o   (valid),
      .datagram_o(datagram)
  );

  // ---- rules ----

  typedef struct packed {
    logic valid;
    logic is_whole;  // a UDP datagram that lies in the frame
    logic is_mine;  // for this interface and service
    logic is_port_bad;
    logic is_source_bad;
    logic has_hop;
    logic [15:0] udp_bytes;
    logic [31:0] payload;
  } rules_t;

  rules_t rules;
  rules_t [Latency:1] rules_q;
  logic [16:0] length;
  logic [15:0] ip_bytes, from_port, to_port;
  logic [31:0] from4, to4;
  logic [127:0] from6, to6;
  logic [7:0] hops;
  logic is_own4, is_own6, is_local_broadcast, is_answered4, is_answered6;

  always_comb begin
    length = 17'(bytes_i) - (is_tagged ? 17'd4 : 17'd0);
    from4 = frame[8*26+:32];
    to4 = frame[8*30+:32];
    from6 = frame[8*22+:128];
    to6 = frame[8*38+:128];
    is_own4 = 1'b0;
    is_own6 = 1'b0;
    is_local_broadcast = 1'b0;
    is_answered4 = 1'b0;
    is_answered6 = 1'b0;
    for (int unsigned i = 0; i < 2; i++) begin
      if (v4_own_q[i] && from4 == v4_q[i]) is_own4 = 1'b1;
      if (v4_own_q[i] && from4 == broadcast_q[i]) is_local_broadcast = 1'b1;
      if (v6_own_q[i] && from6 == endpoint.v6[i]) is_own6 = 1'b1;
      if (v4_answered_q[i] && to4 == v4_q[i]) is_answered4 = 1'b1;
      if (v6_answered_q[i] && to6 == endpoint.v6[i]) is_answered6 = 1'b1;
    end
    rules.valid = valid_i;
    if (is_v4) begin
      ip_bytes = {frame[8*16+:8], frame[8*17+:8]};
      from_port = {frame[8*34+:8], frame[8*35+:8]};
      to_port = {frame[8*36+:8], frame[8*37+:8]};
      rules.udp_bytes = {frame[8*38+:8], frame[8*39+:8]};
      rules.payload = frame[8*42+:32];
      hops = frame[8*22+:8];
      rules.is_whole = frame[8*14+:8] == 8'h45 && frame[8*20+:6] == '0 && frame[8*21+:8] == '0 &&
          frame[8*23+:8] == 8'd17 && 17'(ip_bytes) == 17'(rules.udp_bytes) + 17'd20 &&
          17'(rules.udp_bytes) + 17'd34 <= length;
      rules.is_mine = is_answered4;
      rules.is_source_bad = from4 == '0 || from4 == '1 || from4[7:4] == 4'he || is_local_broadcast ||
          (!loopback_q && (from4[7:0] == 8'd127 || is_own4));
    end else begin
      ip_bytes = {frame[8*18+:8], frame[8*19+:8]};
      from_port = {frame[8*54+:8], frame[8*55+:8]};
      to_port = {frame[8*56+:8], frame[8*57+:8]};
      rules.udp_bytes = {frame[8*58+:8], frame[8*59+:8]};
      rules.payload = frame[8*62+:32];
      hops = frame[8*21+:8];
      rules.is_whole = is_v6 && frame[8*14+4+:4] == 4'd6 && frame[8*20+:8] == 8'd17 &&
          ip_bytes == rules.udp_bytes && 17'(rules.udp_bytes) + 17'd54 <= length;
      rules.is_mine = is_answered6;
      rules.is_source_bad = from6 == '0 || from6[7:0] == 8'hff ||
          (!loopback_q && (from6 == 128'h01 << 120 || is_own6));
    end
    rules.is_whole &= !is_oversize_i && rules.udp_bytes >= 16'd8 && bytes_i >= 16'd18;
    rules.is_mine &= data_i[47:0] == mac_q && to_port == port_q && to_port != '0;
    rules.is_source_bad |= data_i[48];
    rules.is_port_bad = from_port == '0 || from_port == to_port || is_service_port(from_port);
    // The reply in the paper's format has one hop less than its request.
    rules.has_hop = hops >= 8'd2 || (rules.udp_bytes >= 16'd24 && rules.payload[15:0] == 16'h534c);
  end

  logic is_first_q = 1'b1;
  always_ff @(posedge clk_i) begin
    is_first_q <= 1'b0;
    rules_q[1] <= rules;
    for (int unsigned age = 2; age <= Latency; age++) rules_q[age] <= rules_q[age-1];
    if (!rst_ni) for (int unsigned age = 1; age <= Latency; age++) rules_q[age].valid <= 1'b0;
  end

  // Bytes 6 to 13 of an IPv6 source and destination are 0, as their registers have them; so the solver has less to do.
  always_comb begin
    assume (!is_first_q || !rst_ni);
    if (is_v6) begin
      assume (from6[119:8] == '0 && to6[119:8] == '0);
    end
  end

  rules_t r;
  assign r = rules_q[Latency];

  always_comb begin
    if (!is_first_q) begin
      assert (valid == r.valid);
      if (valid) begin
        if (!datagram.is_final) begin
          assert (r.is_whole);
          assert (r.is_mine);
          assert (!r.is_port_bad);
          assert (!r.is_source_bad);
          assert (r.has_hop);
          assert (datagram.payload_bytes == r.udp_bytes - 16'd8 && datagram.payload[31:0] == r.payload);
        end else if (datagram.verdict == VerdictDrop) begin
          assert (r.is_whole && r.is_mine && (r.is_port_bad || r.is_source_bad));
          assert (datagram.reason == (r.is_port_bad ? DropSourcePort : DropSourceAddress));
        end else begin
          assert (datagram.verdict == VerdictForward);
          assert (!r.is_whole || !r.is_mine || (!r.is_port_bad && !r.is_source_bad && !r.has_hop));
        end
      end
    end
  end

endmodule
