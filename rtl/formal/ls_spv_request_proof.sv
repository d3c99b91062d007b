// SPDX-License-Identifier: Apache-2.0
//
// Proof of ls_spv_request, at full width: each datagram gives exactly one request, in order, after one cycle. A request
// is looked up only if it is open to an answer, and is either 32 bytes that are not all 0 while the paper's format is
// accepted, or a native `root` of the right version, status, length and padding, without the reply bit. Its TXID is at
// its place. A native request with the reply bit is never answered nor forwarded. What ls_classify has decided stays.

module ls_spv_request_proof
  import ls_pkg::*;
  import ls_pipeline_pkg::*;
  import ls_spv_pkg::*;
(
    input logic clk_i,
    input logic rst_ni,

    input logic paper_format_i,
    input logic valid_i,
    input datagram_t datagram_i
);

  logic valid;
  request_t request;
  logic [255:0] txid;

  ls_spv_request u_dut (
      .clk_i,
      .rst_ni,
      .paper_format_i,
      .valid_i,
      .datagram_i,
      .valid_o  (valid),
      .request_o(request),
      .txid_o   (txid)
  );

  logic is_first_q = 1'b1;
  logic valid_q, paper_q;
  datagram_t d;
  always_ff @(posedge clk_i) begin
    is_first_q <= 1'b0;
    valid_q <= rst_ni && valid_i;
    paper_q <= paper_format_i;
    d <= datagram_i;
  end

  // Payload of the native format: magic "LS", version, operation, status, length, request id; TXID; 72 zeros.
  logic is_paper, is_native;
  assign is_paper  = d.payload_bytes == 16'd32;
  assign is_native = !is_paper && d.payload_bytes >= 16'd16 && d.payload[15:0] == 16'h534c;

  always_comb begin
    assume (!is_first_q || !rst_ni);
    if (!is_first_q) begin
      assert (valid == valid_q);
      assert (request.headers == d.headers);
      if (d.is_final) begin
        assert (request.outcome == (d.verdict == VerdictDrop ? OutcomeDrop : OutcomeForward));
        assert (request.reason == d.reason);
      end else begin
        // What a service gets is counted.
        assert (request.outcome inside {OutcomeHit, OutcomeDrop, OutcomeHost});
        if (request.outcome == OutcomeHost) assert (is_native && !d.payload[31]);
        if (is_native && d.payload[31]) assert (request.outcome == OutcomeDrop && request.reason == DropReplyBit);
        if (!is_native && !is_paper) assert (request.outcome == OutcomeDrop && request.reason == DropNotARequest);
        if (is_paper) assert (request.outcome != OutcomeHost);
        if (is_paper && request.outcome == OutcomeDrop) begin
          assert (request.reason == (d.payload[255:0] == '0 ? DropNotARequest : DropPaperRefused));
        end
      end
      if (request.outcome == OutcomeHit) begin
        assert (!d.is_final && request.is_native == is_native && (is_paper || is_native));
        if (is_paper) assert (paper_q && d.payload[255:0] != '0 && txid == d.payload[255:0]);
        if (is_native) begin
          assert (d.payload[23:16] == NativeVersion && d.payload[31:24] == SpvOpRoot && d.payload[47:32] == '0);
          // 104 bytes after the header, of which the last 72 are 0.
          assert (d.payload_bytes == 16'd120 && d.payload[63:48] == {8'd104, 8'd0} && d.payload[959:384] == '0);
          assert (txid == d.payload[383:128]);
        end
      end
    end
  end

endmodule
