// SPDX-License-Identifier: Apache-2.0
//
// Hash that chooses the place of a key in a table: the RTL twin of ls_hash in xdp/hash.h and of `index_hash` in
// crates/fastpath/src/hash.rs. NH over four 32-bit words, the upper half of the sum folded into the lower one, and one
// multiplication by an odd number (docs/decisions/keyed-index.md).
//
// Interface: one key in each cycle, no back-pressure, no valid signal. key_i may change only while the result of no
// key in flight is used.
// Latency: eight cycles. Uses five multipliers of 32 x 32 bits, each with two registers after it.

module ls_index_hash (
    input logic clk_i,

    input logic [191:0] key_i,  // two words of NH, one odd multiplier
    input logic [127:0] words_i,  // first 16 bytes of the key to be hashed

    output logic [63:0] hash_o
);

  logic [1:0][31:0] low_q, high_q;
  logic [1:0][63:0] product_q, product_2_q;
  logic [63:0] sum_q, folded_q;
  logic [63:0] low_product_q, low_product_2_q;
  logic [1:0][31:0] cross_q, cross_2_q;
  logic [63:0] multiplier;

  assign multiplier = key_i[191:128];

  always_ff @(posedge clk_i) begin
    for (int unsigned i = 0; i < 2; i++) begin
      low_q[i] <= words_i[64*i+:32] + key_i[64*i+:32];
      high_q[i] <= words_i[64*i+32+:32] + key_i[64*i+32+:32];
      product_q[i] <= 64'(low_q[i]) * 64'(high_q[i]);
      product_2_q[i] <= product_q[i];
    end
    sum_q <= product_2_q[0] + product_2_q[1];
    folded_q <= {sum_q[63:32], sum_q[31:0] ^ sum_q[63:32]};
    // Low 64 bits of a 64 x 64-bit product: one whole product, and the low halves of two others.
    low_product_q <= 64'(folded_q[31:0]) * 64'(multiplier[31:0]);
    cross_q[0] <= folded_q[31:0] * multiplier[63:32];
    cross_q[1] <= folded_q[63:32] * multiplier[31:0];
    low_product_2_q <= low_product_q;
    cross_2_q <= cross_q;
    hash_o <= {low_product_2_q[63:32] + cross_2_q[0] + cross_2_q[1], low_product_2_q[31:0]};
  end


endmodule
