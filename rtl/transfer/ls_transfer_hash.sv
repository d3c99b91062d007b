// SPDX-License-Identifier: Apache-2.0
//
// Chooses the two buckets in which an account may be stored: the function of xdp/hash.h and of transfer_buckets in
// xdp/transfer_store.h. NH over the four 32-bit halves of the id, the upper half of the sum folded into the lower one,
// and one multiplication by an odd number. The products are built from 16-bit products, one DSP block each.
//
// Latency: 8 cycles. Throughput: one id in each cycle. The unit has no valid signals and no reset.

module ls_transfer_hash #(
    parameter int unsigned BucketBits = 14,
    localparam int unsigned KeyBits = 192
) (
    input logic clk_i,

    // Constant while requests are in the store; the first word is in the low bits.
    input logic [KeyBits-1:0] key_i,

    input  logic [       127:0] id_i,
    output logic [BucketBits-1:0] first_o,
    output logic [BucketBits-1:0] second_o
);

  // 1: sums of halves and key.
  logic [3:0][31:0] sum_q;
  // 2, 3, 4: the two products of 32 by 32 bits, and their sum.
  logic [1:0][3:0][31:0] part_q;
  logic [1:0][63:0] product_q;
  logic [63:0] total_q, folded;
  // 5, 6, 7: low half of the product of 64 by 64 bits.
  logic [3:0][3:0][31:0] wide_q;
  logic [3:0][33:0] column_q;
  logic [63:0] hash_q;
  logic unused_low;  // the low bits choose nothing
  // 8: buckets.
  logic [BucketBits-1:0] first_q, second_q, first, second;

  assign unused_low = &{1'b0, hash_q};
  assign folded = total_q ^ 64'(total_q[63:32]);
  assign first  = hash_q[63-:BucketBits];
  assign second = hash_q[63-BucketBits-:BucketBits];

  always_ff @(posedge clk_i) begin
    for (int unsigned i = 0; i < 4; i++) sum_q[i] <= id_i[32*i+:32] + key_i[32*i+:32];
    for (int unsigned i = 0; i < 2; i++) begin
      part_q[i][0] <= 32'(sum_q[2*i][15:0]) * 32'(sum_q[2*i+1][15:0]);
      part_q[i][1] <= 32'(sum_q[2*i][15:0]) * 32'(sum_q[2*i+1][31:16]);
      part_q[i][2] <= 32'(sum_q[2*i][31:16]) * 32'(sum_q[2*i+1][15:0]);
      part_q[i][3] <= 32'(sum_q[2*i][31:16]) * 32'(sum_q[2*i+1][31:16]);
      product_q[i] <= {part_q[i][3], part_q[i][0]} + {15'd0, {1'b0, part_q[i][1]} +
                      {1'b0, part_q[i][2]}, 16'd0};
    end
    total_q <= product_q[0] + product_q[1];
    for (int unsigned i = 0; i < 4; i++) begin
      for (int unsigned j = 0; j < 4; j++) begin
        wide_q[i][j] <= i + j < 4 ? 32'(folded[16*i+:16]) * 32'(key_i[128+16*j+:16]) : '0;
      end
    end
    column_q[0] <= 34'(wide_q[0][0]);
    column_q[1] <= 34'(wide_q[0][1]) + 34'(wide_q[1][0]);
    column_q[2] <= 34'(wide_q[0][2]) + 34'(wide_q[1][1]) + 34'(wide_q[2][0]);
    column_q[3] <= 34'(wide_q[0][3]) + 34'(wide_q[1][2]) + 34'(wide_q[2][1]) + 34'(wide_q[3][0]);
    hash_q <= {30'd0, column_q[0]} + {14'd0, column_q[1], 16'd0} + {column_q[2][31:0], 32'd0} +
        {column_q[3][15:0], 48'd0};
    first_q <= first;
    // If both halves choose one bucket, the second bucket is the neighbour of the first one.
    second_q <= second ^ BucketBits'(first == second);
  end

  assign first_o  = first_q;
  assign second_o = second_q;

endmodule
