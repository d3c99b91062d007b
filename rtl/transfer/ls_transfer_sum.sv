// SPDX-License-Identifier: Apache-2.0
//
// Checksum of the operation of a packet, by which a repetition is recognized: the RTL twin of the loop in
// transfer_scan in xdp/transfer_native.h. It has eleven multiplications, each of which needs the result of the one
// before. Each of them has a multiplier of its own here, so a checksum can begin in each cycle.
//
// Interface: words_i is the operation of any packet. If a sum of it is needed, valid_i is 1 exactly Lead cycles later;
// at most Depth such sums may be under way or wait at the output. Sums come in that order, ready/valid.
// Throughput: one sum in each cycle. Latency: 35 cycles from words_i to the sum at the output.

module ls_transfer_sum
  import ls_pkg::*;
  import ls_transfer_packet_pkg::*;
#(
    parameter int unsigned Depth = 64,
    parameter int unsigned Lead  = 6  // cycles; less than the latency
) (
    input logic clk_i,
    input logic rst_ni,

    input logic [8*OperationBytes-1:0] words_i,
    input logic valid_i,

    output logic valid_o,
    input logic ready_i,
    output logic [63:0] sum_o
);

  // TRANSFER_SUM_ODD of the XDP program, and the number of operations, with which the sum begins.
  localparam logic [63:0] Odd = 64'h9e3779b97f4a7c15;
  localparam logic [63:0] Begin = 64'd1;
  localparam int unsigned StepCycles = 3;
  // From words_i to the last sum, which is then put into the queue.
  localparam int unsigned Latency = 1 + StepCycles * OperationWords;

  logic [63:0] factor_q[OperationWords+1];
  logic [Latency-Lead-1:0] valid_q;
  logic is_done, sums_ready;
  logic [$clog2(Depth):0] unused_sums;

  always_ff @(posedge clk_i) factor_q[0] <= Begin ^ words_i[63:0];

  for (genvar step = 0; step < int'(OperationWords); step++) begin : gen_step
    logic [63:0] word, product;
    // Parts of 18 and 17 bits, so that a product fits one multiplier of an FPGA with 18 x 18 bits, and one of an FPGA
    // with 26 x 17 bits. The names have the place of the lowest bit.
    logic [34:0] at_0_q, at_17_q, at_18_q;
    logic [29:0] at_34_q;
    logic [28:0] at_35_q;
    logic [27:0] at_36_q;
    logic [12:0] at_51_q;
    logic [11:0] at_52_q;
    logic [10:0] at_53_q;
    logic [9:0] at_54_q;
    logic [63:0] left_q, right_q;

    // The word of the next step.
    if (step + 1 < int'(OperationWords)) begin : gen_word
      ls_delay #(
          .T(logic [63:0]),
          .Cycles(StepCycles * (step + 1))
      ) u_word (
          .clk_i,
          .valid_i(1'b1),
          .data_i(words_i[64*(step+1)+:64]),
          .data_o(word)
      );
    end else begin : gen_last
      assign word = '0;
    end

    // Low 64 bits of the product.
    assign product = left_q + right_q;

    always_ff @(posedge clk_i) begin
      at_0_q <= 35'(factor_q[step][17:0]) * 35'(Odd[16:0]);
      at_17_q <= 35'(factor_q[step][17:0]) * 35'(Odd[33:17]);
      at_18_q <= 35'(factor_q[step][35:18]) * 35'(Odd[16:0]);
      at_34_q <= 30'(factor_q[step][17:0]) * 30'(Odd[50:34]);
      at_35_q <= 29'(factor_q[step][35:18]) * 29'(Odd[33:17]);
      at_36_q <= 28'(factor_q[step][53:36]) * 28'(Odd[16:0]);
      at_51_q <= factor_q[step][12:0] * Odd[63:51];
      at_52_q <= factor_q[step][29:18] * Odd[45:34];
      at_53_q <= factor_q[step][46:36] * Odd[27:17];
      at_54_q <= factor_q[step][63:54] * Odd[9:0];
      left_q <= {at_36_q, 1'b0, at_0_q} + {at_52_q, at_17_q, 17'd0} + {at_53_q, at_18_q, 18'd0};
      right_q <= {at_34_q, 34'd0} + {at_35_q, 35'd0} + {at_51_q, 51'd0} + {at_54_q, 54'd0};
      factor_q[step+1] <= product ^ 64'(product[63:32]) ^ word;
    end
  end

  assign is_done = valid_q[Latency-Lead-1];

  always_ff @(posedge clk_i) begin
    if (!rst_ni) valid_q <= '0;
    else valid_q <= {valid_q[Latency-Lead-2:0], valid_i};
  end

  ls_fifo #(
      .T(logic [63:0]),
      .Depth(Depth)
  ) u_sums (
      .clk_i,
      .rst_ni,
      .valid_i(is_done),
      .ready_o(sums_ready),
      .data_i (factor_q[OperationWords]),
      .valid_o,
      .ready_i,
      .data_o (sum_o),
      .count_o(unused_sums)
  );

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (rst_ni) assert (!is_done || sums_ready) else $error("a sum was lost");
  end
`endif

endmodule
