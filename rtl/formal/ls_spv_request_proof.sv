// SPDX-License-Identifier: Apache-2.0
//
// Proof of ls_spv_request, at full width: each datagram gives exactly one request, in order, after two cycles. A request
// is looked up only if it is open to an answer, and is either 32 bytes that are not all 0 while the paper's format is
// accepted, or a native `root` of the right version, status, length and padding, without the reply bit. Its TXID is at
// its place. The items of a request decide exactly if it is a native `roots` of the right version, status, length,
// padding of its head, and count; the TXID of an item goes on in its cycle and in one without a datagram. A native
// request with the reply bit is never answered nor forwarded. What ls_classify has decided stays.
// With Roots 0, no request is decided by items.

module ls_spv_request_proof
  import ls_pkg::*;
  import ls_pipeline_pkg::*;
  import ls_spv_pkg::*;
#(
    parameter bit Roots = 1'b1
) (
    input logic clk_i,
    input logic rst_ni,

    input logic paper_format_i,
    input logic valid_i,
    input datagram_t datagram_i,
    input logic [255:0] item_txid_i
);

  logic valid;
  request_t request;
  logic [255:0] txid;

  ls_spv_request #(
      .Roots(Roots)
  ) u_dut (
      .clk_i,
      .rst_ni,
      .paper_format_i,
      .valid_i,
      .datagram_i,
      .item_valid_i(1'b1),
      .item_txid_i,
      .valid_o  (valid),
      .request_o(request),
      .looks_up_o(),
      .txid_o   (txid)
  );

  // What came in two cycles ago; after one cycle, there is nothing yet.
  typedef struct packed {
    logic valid;
    logic given;
    logic paper;
    datagram_t datagram;
    logic [255:0] item_txid;
  } given_t;

  given_t [1:0] past_q;
  logic [1:0] is_first_q = '1;
  logic valid_q, given_q, paper_q;
  datagram_t d;
  logic [255:0] item_txid_q;
  always_ff @(posedge clk_i) begin
    is_first_q <= {is_first_q[0], 1'b0};
    past_q[0] <= '{
        valid: rst_ni && valid_i,
        given: valid_i,
        paper: paper_format_i,
        datagram: datagram_i,
        item_txid: item_txid_i
    };
    past_q[1] <= past_q[0];
    past_q[1].valid <= rst_ni && past_q[0].valid;
  end
  assign {valid_q, given_q, paper_q, d, item_txid_q} = past_q[1];

  // Payload of the native format: magic "LS", version, operation, status, length, request id; TXID; 72 zeros.
  logic is_paper, is_native;
  assign is_paper  = d.payload_bytes == 16'd32;
  assign is_native = !is_paper && d.payload_bytes >= 16'd16 && d.payload[15:0] == 16'h534c;

  // Native `roots`: header as above; 36 zeros, count; 72 bytes for each item.
  logic is_roots;
  logic [7:0] count;
  assign count = d.payload[8*55+:8];
  always_comb begin
    is_roots = Roots && !d.is_final && is_native && d.payload[23:16] == 8'd1 && d.payload[31:24] == 8'd2 &&
               d.payload[47:32] == '0 && {d.payload[55:48], d.payload[63:56]} == d.payload_bytes - 16'd16 &&
               d.payload[8*16+:8*39] == '0 && count >= 8'd1 && count <= 8'd16;
    for (int unsigned n = 1; n <= 16; n++) begin
      if (count == 8'(n) && d.payload_bytes != 16'(56 + 72 * n)) is_roots = 1'b0;
    end
  end

  always_comb begin
    assume (!is_first_q[0] || !rst_ni);
    if (is_first_q == '0) begin
      assert (valid == valid_q);
      assert (request.headers == d.headers);
      if (d.is_final) begin
        assert (request.outcome == (d.verdict == VerdictDrop ? OutcomeDrop : OutcomeForward));
        assert (request.reason == d.reason);
      end else begin
        // What a service gets is counted.
        assert (request.outcome inside {OutcomeHit, OutcomeDrop, OutcomeHost, OutcomeRoots});
        if (request.outcome == OutcomeHost) assert (is_native && !d.payload[31]);
        if (is_native && d.payload[31]) assert (request.outcome == OutcomeDrop && request.reason == DropReplyBit);
        if (!is_native && !is_paper) assert (request.outcome == OutcomeDrop && request.reason == DropNotARequest);
        if (is_paper) assert (request.outcome != OutcomeHost);
        if (is_paper && request.outcome == OutcomeDrop) begin
          assert (request.reason == (d.payload[255:0] == '0 ? DropNotARequest : DropPaperRefused));
        end
      end
      assert ((request.outcome == OutcomeRoots) == is_roots);
      if (is_roots || !given_q) assert (txid == item_txid_q);
      if (is_roots) assert (request.is_native);
      if (request.outcome == OutcomeHit) begin
        assert (!d.is_final && request.is_native == is_native && (is_paper || is_native));
        if (is_paper) assert (paper_q && d.payload[255:0] != '0);
        if (is_paper && given_q) assert (txid == d.payload[255:0]);
        if (is_native) begin
          assert (d.payload[23:16] == NativeVersion && d.payload[31:24] == SpvOpRoot && d.payload[47:32] == '0);
          // 104 bytes after the header, of which the last 72 are 0.
          assert (d.payload_bytes == 16'd120 && d.payload[63:48] == {8'd104, 8'd0} && d.payload[959:384] == '0);
          if (given_q) assert (txid == d.payload[383:128]);
        end
      end
    end
  end

endmodule
