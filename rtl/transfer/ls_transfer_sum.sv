// SPDX-License-Identifier: Apache-2.0
//
// Checksum of the operation of a packet, by which a repetition is recognized: the RTL twin of the loop in
// transfer_scan in xdp/transfer_native.h. It has eleven multiplications, each of which needs the result of the one
// before; four packets share a multiplier.
//
// Interface: an operation is taken in each cycle in which valid_i is 1; at most Depth of them may be under way. Sums
// come in the order of the operations, ready/valid.
// Throughput: one sum every 11 cycles. Latency: 46 cycles while no other operation is under way.

module ls_transfer_sum
  import ls_pkg::*;
  import ls_transfer_packet_pkg::*;
#(
    parameter int unsigned Depth = 64
) (
    input logic clk_i,
    input logic rst_ni,

    input logic valid_i,
    input logic [8*OperationBytes-1:0] words_i,

    output logic valid_o,
    input logic ready_i,
    output logic [63:0] sum_o
);

  // TRANSFER_SUM_ODD of the XDP program, and the number of operations, with which the sum begins.
  localparam logic [63:0] Odd = 64'h9e3779b97f4a7c15;
  localparam logic [63:0] Begin = 64'd1;
  localparam int unsigned Stages = 4;  // around the loop
  localparam int unsigned LeftBits = $clog2(OperationWords + 1);

  typedef struct packed {
    logic valid;
    logic [LeftBits-1:0] left;  // words after the one that is in the multiplier
    logic [8*OperationBytes-1:0] words;  // the next one in the low bits
  } turn_t;

  turn_t [Stages-1:0] turn_q;
  turn_t turn_d;
  logic [63:0] factor_d, factor_q, low_q, low_2_q, product_q, sum;
  logic [1:0][31:0] cross_q, cross_2_q;
  logic queued_valid, queued_ready, queue_ready, sums_ready, is_done;
  logic [8*OperationBytes-1:0] queued;
  logic [$clog2(Depth):0] unused_queued, unused_sums;

  ls_fifo #(
      .T(logic [8*OperationBytes-1:0]),
      .Depth(Depth)
  ) u_queue (
      .clk_i,
      .rst_ni,
      .valid_i,
      .ready_o(queue_ready),
      .data_i (words_i),
      .valid_o(queued_valid),
      .ready_i(queued_ready),
      .data_o (queued),
      .count_o(unused_queued)
  );

  assign sum = product_q ^ 64'(product_q[63:32]);
  assign is_done = turn_q[Stages-1].valid && turn_q[Stages-1].left == '0;
  assign queued_ready = !turn_q[Stages-1].valid || is_done;

  always_comb begin
    if (queued_ready) begin
      turn_d.valid = queued_valid;
      turn_d.left = LeftBits'(OperationWords - 1);
      turn_d.words = queued >> 64;
      factor_d = Begin ^ queued[63:0];
    end else begin
      turn_d.valid = 1'b1;
      turn_d.left = turn_q[Stages-1].left - 1'b1;
      turn_d.words = turn_q[Stages-1].words >> 64;
      factor_d = sum ^ turn_q[Stages-1].words[63:0];
    end
  end

  always_ff @(posedge clk_i) begin
    turn_q[0] <= turn_d;
    for (int unsigned i = 1; i < Stages; i++) turn_q[i] <= turn_q[i-1];
    if (!rst_ni) for (int unsigned i = 0; i < Stages; i++) turn_q[i].valid <= 1'b0;
  end

  // Low 64 bits of a 64 x 64-bit product: one whole product, and the low halves of two others.
  always_ff @(posedge clk_i) begin
    factor_q <= factor_d;
    low_q <= 64'(factor_q[31:0]) * 64'(Odd[31:0]);
    cross_q[0] <= factor_q[31:0] * Odd[63:32];
    cross_q[1] <= factor_q[63:32] * Odd[31:0];
    low_2_q <= low_q;
    cross_2_q <= cross_q;
    product_q <= {low_2_q[63:32] + cross_2_q[0] + cross_2_q[1], low_2_q[31:0]};
  end

  ls_fifo #(
      .T(logic [63:0]),
      .Depth(Depth)
  ) u_sums (
      .clk_i,
      .rst_ni,
      .valid_i(is_done),
      .ready_o(sums_ready),
      .data_i (sum),
      .valid_o,
      .ready_i,
      .data_o (sum_o),
      .count_o(unused_sums)
  );

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (rst_ni) assert ((!valid_i || queue_ready) && (!is_done || sums_ready)) else $error("an operation was lost");
  end
`endif

endmodule
