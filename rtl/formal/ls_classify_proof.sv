// SPDX-License-Identifier: Apache-2.0
//
// Proof of ls_classify: each window gives exactly one datagram, in order, after seven cycles, and
// - a frame is open to an answer only if it is a whole, unfragmented UDP datagram without IP options for the own MAC
//   address, an answered address and the port of the service; from a source port that is neither 0, nor that of a
//   Lineside service, nor the destination port; from a source that is neither unspecified, multicast, broadcast, nor,
//   except on lo, loopback or own; and if its reply has a hop left;
// - a frame is dropped only if it meets these conditions except those on its source, and with the right reason;
// - all other frames are forwarded, and payload and length of an open one are those of the frame.
// Bytes after the end of the frame take any value. The offsets are those of Ethernet, 802.1Q, IPv4, IPv6 and UDP.
//
// The check is bounded: the first three windows after a reset, at any times. The module is a pipeline of seven cycles
// without feedback, so later windows are treated alike. Each kind of frame has a run of its own.
//
// Narrow: of the payload, its first four bytes are free; two registers of each kind of address are used; of an IPv6
// address the first and the last byte are free; the rest is 0. Assumed: the endpoint does not change.

module ls_classify_proof
  import ls_pkg::*;
  import ls_pipeline_pkg::*;
#(
    parameter int unsigned Kind = 0  // bit 0: tagged, bit 1: IPv6; 4: any other type, tagged or not
) (
    input logic clk_i,
    input logic rst_ni,

    input logic [47:0] mac_i,
    input logic loopback_i,
    input logic [1:0] v4_own_i,
    input logic [1:0] v4_answered_i,
    input logic [1:0][31:0] v4_i,
    input logic [1:0][31:0] broadcast_i,
    input logic [1:0] v6_own_i,
    input logic [1:0] v6_answered_i,
    input logic [1:0][15:0] v6_i,
    input logic [15:0] port_i,

    input logic valid_i,
    input logic is_oversize_i,
    input logic [15:0] bytes_i,
    input logic [8*70-1:0] data_i,
    input logic is_qinq_i
);

  localparam int unsigned Latency = 7;

  // ---- environment ----

  endpoint_t endpoint;
  always_comb begin
    endpoint = '0;
    endpoint.mac = mac_i;
    endpoint.loopback = loopback_i;
    endpoint.v4_own[1:0] = v4_own_i;
    endpoint.v4_answered[1:0] = v4_answered_i;
    endpoint.v6_own[1:0] = v6_own_i;
    endpoint.v6_answered[1:0] = v6_answered_i;
    for (int unsigned i = 0; i < 2; i++) begin
      endpoint.v4[i] = v4_i[i];
      endpoint.v4_broadcast[i] = broadcast_i[i];
      endpoint.v6[i] = {v6_i[i][15:8], 112'd0, v6_i[i][7:0]};
    end
    endpoint.port = port_i;
  end

  // One kind of frame in each run, so that the solver has simple cases.
  localparam logic [15:0] Type = Kind[1] ? 16'hdd86 : 16'h0008;
  logic [8*70-1:0] data;
  always_comb begin
    data = data_i;
    if (Kind < 4 && Kind[0]) begin
      data[8*12+:16] = is_qinq_i ? 16'ha888 : 16'h0081;
      data[8*16+:16] = Type;
    end else if (Kind < 4) data[8*12+:16] = Type;
  end
  window_t window;
  assign window = '{
          is_oversize: is_oversize_i,
          is_vlan: {data[8*12+:8], data[8*13+:8]} inside {16'h8100, 16'h88a8},  // as ls_window_proof shows
          bytes: bytes_i,
          data: (8 * WindowBytes)'(data)
      };

  // The frame two cycles later, when the module compares addresses.
  logic [1:0] valid_q, is_oversize_q;
  logic [1:0][15:0] bytes_q;
  logic [1:0][8*70-1:0] data_q;
  always_ff @(posedge clk_i) begin
    valid_q <= rst_ni ? {valid_q[0], valid_i} : 2'd0;
    is_oversize_q <= {is_oversize_q[0], is_oversize_i};
    bytes_q <= {bytes_q[0], bytes_i};
    data_q <= {data_q[0], data};
  end

  logic is_tagged, is_v4, is_v6;
  logic [8*70-1:0] frame;  // without its tag, so that the offsets are constants
  assign is_tagged = Kind < 4 ? Kind[0] : {data_q[1][8*12+:8], data_q[1][8*13+:8]} inside {16'h8100, 16'h88a8};
  assign frame = is_tagged ? data_q[1] >> 32 : data_q[1];
  assign is_v4 = Kind < 4 ? !Kind[1] : {frame[8*12+:8], frame[8*13+:8]} == 16'h0800;
  assign is_v6 = Kind < 4 ? Kind[1] : {frame[8*12+:8], frame[8*13+:8]} == 16'h86dd;

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
    logic is_mine;  // the frame is for this interface and service
    logic is_port_bad;
    logic is_source_bad;
    logic has_hop;
    logic [15:0] udp_bytes;
    logic [31:0] payload;
  } rules_t;

  rules_t rules;
  rules_t [Latency:3] rules_q;
  logic [16:0] length;
  logic [15:0] ip_bytes, from_port, to_port;
  logic [31:0] from4, to4;
  logic [127:0] from6, to6;
  logic [7:0] hops;
  logic is_own4, is_own6, is_local_broadcast, is_answered4, is_answered6;

  always_comb begin
    length = 17'(bytes_q[1]) - (is_tagged ? 17'd4 : 17'd0);
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
      if (v4_own_i[i] && from4 == v4_i[i]) is_own4 = 1'b1;
      if (v4_own_i[i] && from4 == broadcast_i[i]) is_local_broadcast = 1'b1;
      if (v6_own_i[i] && from6 == endpoint.v6[i]) is_own6 = 1'b1;
      if (v4_answered_i[i] && to4 == v4_i[i]) is_answered4 = 1'b1;
      if (v6_answered_i[i] && to6 == endpoint.v6[i]) is_answered6 = 1'b1;
    end
    rules.valid = valid_q[1] && rst_ni;
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
          (!loopback_i && (from4[7:0] == 8'd127 || is_own4));
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
          (!loopback_i && (from6 == 128'h01 << 120 || is_own6));
    end
    rules.is_whole &= !is_oversize_q[1] && rules.udp_bytes >= 16'd8 && bytes_q[1] >= 16'd18;
    rules.is_mine &= data_q[1][47:0] == mac_i && to_port == port_i && to_port != '0;
    rules.is_source_bad |= data_q[1][48];
    rules.is_port_bad = from_port == '0 || from_port == to_port || is_service_port(from_port);
    // The reply in the paper's format has one hop less than its request.
    rules.has_hop = hops >= 8'd2 || (rules.udp_bytes >= 16'd24 && rules.payload[15:0] == 16'h534c);
  end

  logic is_first_q = 1'b1;
  endpoint_t endpoint_q;
  always_ff @(posedge clk_i) begin
    is_first_q <= 1'b0;
    endpoint_q <= endpoint;
    rules_q[3] <= rules;
    for (int unsigned age = 4; age <= Latency; age++) rules_q[age] <= rules_q[age-1];
    if (!rst_ni) for (int unsigned age = 3; age <= Latency; age++) rules_q[age].valid <= 1'b0;
  end

  // Bytes 6 to 13 of an IPv6 source and destination are 0, as their registers have them; so the solver has less to do.
  always_comb begin
    assume (!is_first_q || !rst_ni);
    assume (is_first_q || endpoint == endpoint_q);
    if (Kind == 4) assume (!is_v4 && !is_v6);
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
