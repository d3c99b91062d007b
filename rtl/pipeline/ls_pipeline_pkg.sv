// SPDX-License-Identifier: Apache-2.0
//
// Types of the packet pipeline. Byte 0 of a beat, an address or a hash is in bits 7:0, as on AXI-Stream.

package ls_pipeline_pkg;

  import ls_pkg::*;

`ifdef LS_PROOF_BEAT_BYTES
  localparam int unsigned BeatBytes = `LS_PROOF_BEAT_BYTES;  // narrow, for a proof
`else
  localparam int unsigned BeatBytes = 64;
`endif
  localparam int unsigned BeatBits = 8 * BeatBytes;

  // In a simulation with LS_SKIP_IDLE, a stage of the pipeline without a valid entry computes nothing, and its data
  // registers keep their values, which takes less time. No later stage uses data without their valid bit, so the
  // streams carry the same beats in the same cycles. In hardware, and in a simulation without it, the stages do not
  // look at the bit.
`ifdef LS_SKIP_IDLE
  localparam bit SkipsIdle = 1'b1;
`else
  localparam bit SkipsIdle = 1'b0;
`endif

  // All bytes that decide about a request, and all bytes that a reply changes, are in the first four beats of the
  // frame: headers of at most 66 bytes and a payload of at most 128.
  localparam int unsigned WindowBeats = 4;
  localparam int unsigned WindowBytes = WindowBeats * BeatBytes;

  // Payload bytes of the longest request that a service of the RTL answers: one native operation of `transfer`.
  localparam int unsigned PayloadBytesMax = NativeHeaderBytes + ExecuteHeadBytes + OperationBytes;

  localparam int unsigned EthBytes = 14;
  localparam int unsigned VlanBytes = 4;
  localparam int unsigned Ipv4Bytes = 20;
  localparam int unsigned Ipv6Bytes = 40;
  localparam int unsigned UdpBytes = 8;
  // Bytes from the first payload byte of the shortest headers to the last of the longest.
  localparam int unsigned BodyFirst = EthBytes + Ipv4Bytes + UdpBytes;
  localparam int unsigned BodyBytes = VlanBytes + (Ipv6Bytes - Ipv4Bytes) + PayloadBytesMax;

  localparam logic [15:0] EtherTypeIpv4 = 16'h0800;
  localparam logic [15:0] EtherTypeIpv6 = 16'h86dd;
  localparam logic [15:0] EtherTypeVlan = 16'h8100;
  localparam logic [15:0] EtherTypeQinq = 16'h88a8;

  // Maximum time to live of a reply.
  localparam logic [7:0] TtlMax = 8'd64;

  // Beat of a frame.
  typedef struct packed {
    logic last;
    logic [BeatBytes-1:0] keep;
    logic [BeatBits-1:0] data;
  } beat_t;

  // Beginning of a frame. Bytes from `bytes` on are undefined.
  typedef struct packed {
    logic is_oversize;  // longer than FrameBeatsMax; `bytes` is not valid
    logic is_vlan;  // the outer EtherType is that of a VLAN tag
    logic [15:0] bytes;
    logic [8*WindowBytes-1:0] data;
  } window_t;

  typedef enum logic [1:0] {
    VerdictForward = 2'd0,
    VerdictReply   = 2'd1,
    VerdictDrop    = 2'd2
  } verdict_e;

  // Addresses of the interface.
  typedef struct packed {
    logic [47:0] mac;
    logic loopback;
    logic [RegisterV4Count-1:0] v4_own;
    logic [RegisterV4Count-1:0] v4_answered;
    logic [RegisterV4Count-1:0][31:0] v4;
    logic [RegisterV4Count-1:0][31:0] v4_broadcast;
    logic [RegisterV6Count-1:0] v6_own;
    logic [RegisterV6Count-1:0] v6_answered;
    logic [RegisterV6Count-1:0][127:0] v6;
    logic [15:0] port;  // UDP port of the service; 0: the service is off
  } endpoint_t;

  // Properties of a request that its reply needs.
  typedef struct packed {
    logic is_v6;
    logic is_vlan;
    logic [7:0] ttl;
    logic [15:0] ip_check;
    logic [15:0] partial_sum;  // of the pseudo header and the UDP header without its checksum
    logic [15:0] native_sum;  // of the first 16 payload bytes, with the reply bit of a native header
  } headers_t;

  // Outcome of the frame rules: `forward` or `drop` is final; otherwise the service decides.
  typedef struct packed {
    logic is_final;
    verdict_e verdict;
    drop_e reason;
    headers_t headers;
    logic [127:0] source;  // address; IPv4 in the low 32 bits, with zeros above
    logic [15:0] pseudo_sum;  // of the pseudo header
    logic [15:0] udp_check;
    logic [15:0] payload_bytes;
    logic [8*PayloadBytesMax-1:0] payload;  // its first bytes; undefined from payload_bytes on
  } datagram_t;

  // Decision about a frame, in the order of the frames.
  typedef struct packed {
    verdict_e verdict;
    logic is_patched;  // bytes of the reply from the second beat on come from patches
    logic is_native;  // the reply bit is set
    logic is_v6;
    logic is_vlan;
    logic [7:0] ttl;
    logic [15:0] ip_check;
    logic [15:0] udp_check;
    logic [BodyBytes/2-1:0] mask;  // 16-bit words of `body` that replace those of the frame
    logic [8*BodyBytes-1:0] body;  // bytes of the frame from BodyFirst on
  } decision_t;

  // Bytes of a reply's beat that are not in its decision.
  typedef struct packed {
    logic is_end;  // the last patch of the frame
    logic [BeatBytes/2-1:0] mask;  // 16-bit words that are replaced
    logic [BeatBits-1:0] data;
  } patch_t;

  // Returns the 16-bit word in network order at byte `at` of a short run of bytes.
  function automatic logic [15:0] be16(input logic [15:0] bytes);
    return {bytes[7:0], bytes[15:8]};
  endfunction

  function automatic logic [31:0] be32(input logic [31:0] bytes);
    return {bytes[7:0], bytes[15:8], bytes[23:16], bytes[31:24]};
  endfunction

  // Folds a sum of 16-bit words to 16 bits with end-around carry (RFC 1071). The sum has at most 2^16 words.
  // The carry chooses between two sums, which takes less time than a second addition.
  function automatic logic [15:0] fold(input logic [31:0] sum);
    logic [16:0] once;
    logic [15:0] with_carry;
    once = {1'b0, sum[15:0]} + {1'b0, sum[31:16]};
    with_carry = sum[15:0] + sum[31:16] + 16'd1;
    return once[16] ? with_carry : once[15:0];
  endfunction

  // Returns the time to live of a reply; see ls_reply_ttl in xdp/parse.h. 0: no reply may be sent.
  function automatic logic [7:0] reply_ttl(input logic is_native, input logic [7:0] ttl);
    if (is_native || ttl > TtlMax) return TtlMax;
    if (ttl == '0) return '0;
    return ttl - 8'd1;
  endfunction

endpackage
