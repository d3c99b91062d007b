// SPDX-License-Identifier: Apache-2.0
//
// Checksum of the operation of a packet, by which a repetition is recognized: the RTL twin of the loop in
// transfer_scan in xdp/transfer_native.h. Each word of 64 bits is combined with a key of its own, and the halves of the
// result are multiplied; the checksum is the sum of the products.
//
// Interface: words_i is the operation of any packet. If a sum of it is needed, valid_i is 1 exactly Lead cycles later;
// at most Depth such sums may be under way or wait at the output. Sums come in that order, ready/valid.
// Throughput: one sum in each cycle. Latency: nine cycles from words_i to the sum at the output.

module ls_transfer_sum
  import ls_pkg::*;
  import ls_transfer_packet_pkg::*;
#(
    parameter int unsigned Depth = 64,
    parameter int unsigned Lead  = 6  // cycles; at most 6, two less than those of the sum
) (
    input logic clk_i,
    input logic rst_ni,

    input logic [8*OperationBytes-1:0] words_i,
    input logic valid_i,

    output logic valid_o,
    input logic ready_i,
    output logic [63:0] sum_o
);

  // TRANSFER_SUM_KEY_STEP of the XDP program.
  localparam logic [63:0] KeyStep = 64'h9e3779b97f4a7c15;
  localparam int unsigned Levels = $clog2(OperationWords);
  // From words_i to the sum, which is then put into the queue: keys, products, two cycles for their sums, and the
  // levels of a tree of additions.
  localparam int unsigned Latency = 4 + Levels;

  logic [Latency-Lead-1:0] valid_q;
  logic is_done, sums_ready;
  logic [$clog2(Depth):0] unused_sums;

  logic [63:0] products[1<<Levels];

  for (genvar word = 0; word < int'(OperationWords); word++) begin : gen_word
    localparam logic [63:0] Key = KeyStep * 64'(word + 1);
    // The low half is multiplied in parts of 17 and 15 bits, the high half in parts of 18 and 14 bits, so that a
    // product fits one multiplier of an FPGA with 18 x 18 bits, and one of an FPGA with 26 x 17 bits. The names have
    // the place of the lowest bit.
    logic [31:0] low_q, high_q;
    logic [34:0] at_0_q, at_0_2q;
    logic [32:0] at_17_q;
    logic [30:0] at_18_q;
    logic [28:0] at_35_q, at_35_2q;
    logic [33:0] middle_q;
    logic [63:0] product_q;

    always_ff @(posedge clk_i) begin
      {high_q, low_q} <= words_i[64*word+:64] ^ Key;
      at_0_q <= 35'(low_q[16:0]) * 35'(high_q[17:0]);
      at_17_q <= 33'(low_q[31:17]) * 33'(high_q[17:0]);
      at_18_q <= 31'(low_q[16:0]) * 31'(high_q[31:18]);
      at_35_q <= 29'(low_q[31:17]) * 29'(high_q[31:18]);
      {at_35_2q, at_0_2q} <= {at_35_q, at_0_q};
      middle_q <= 34'(at_17_q) + {2'd0, at_18_q, 1'b0};
      product_q <= {at_35_2q, at_0_2q} + {13'd0, middle_q, 17'd0};
    end
    assign products[word] = product_q;
  end

  for (genvar word = int'(OperationWords); word < (1 << Levels); word++) begin : gen_none
    assign products[word] = '0;
  end

  for (genvar level = 0; level < int'(Levels); level++) begin : gen_level
    localparam int unsigned Sums = 1 << (Levels - 1 - level);
    logic [63:0] addends[2*Sums];
    logic [63:0] sums_q[Sums];
    if (level == 0) begin : gen_first
      assign addends = products;
    end else begin : gen_next
      assign addends = gen_level[level-1].sums_q;
    end
    always_ff @(posedge clk_i) begin
      for (int unsigned i = 0; i < Sums; i++) sums_q[i] <= addends[2*i] + addends[2*i+1];
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
      .data_i (gen_level[Levels-1].sums_q[0]),
      .valid_o,
      .ready_i,
      .data_o (sum_o),
      .count_o(unused_sums)
  );

  if (Lead + 2 > Latency) begin : gen_check
    $fatal(1, "the sum would come before valid_i");
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (rst_ni) assert (!is_done || sums_ready) else $error("a sum was lost");
  end
`endif

endmodule
