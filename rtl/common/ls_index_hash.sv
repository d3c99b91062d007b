// SPDX-License-Identifier: Apache-2.0
//
// Hash that chooses the place of a key in a table: the RTL twin of ls_hash in xdp/hash.h and of `index_hash` in
// crates/fastpath/src/hash.rs. NH over four 32-bit words, the upper half of the sum folded into the lower one, and one
// multiplication by an odd number (docs/decisions/keyed-index.md).
//
// Interface: one key in each cycle, no back-pressure, no valid signal. key_i may change only while the result of no
// key in flight is used.
// Latency: eight cycles. Uses 18 multipliers of 16 x 16 bits, each with a register after it; the sum of the parts of a
// product has a cycle of its own.

module ls_index_hash (
    input logic clk_i,

    input logic [191:0] key_i,   // two words of NH, one odd multiplier
    input logic [127:0] words_i, // first 16 bytes of the key to be hashed

    output logic [63:0] hash_o
);

  // Parts of a product of 32 x 32 bits: of low halves, of one low and one high half, of high halves.
  typedef struct packed {
    logic [31:0] high;
    logic [31:0] cross_2;
    logic [31:0] cross_1;
    logic [31:0] low;
  } parts_t;

  // Parts of which the low 32 bits of a product consist.
  typedef struct packed {
    logic [15:0] cross_2;
    logic [15:0] cross_1;
    logic [31:0] low;
  } low_parts_t;

  function automatic parts_t multiply(input logic [31:0] a, input logic [31:0] b);
    parts_t parts;
    parts.low = 32'(a[15:0]) * 32'(b[15:0]);
    parts.cross_1 = 32'(a[15:0]) * 32'(b[31:16]);
    parts.cross_2 = 32'(a[31:16]) * 32'(b[15:0]);
    parts.high = 32'(a[31:16]) * 32'(b[31:16]);
    return parts;
  endfunction

  function automatic low_parts_t multiply_low(input logic [31:0] a, input logic [31:0] b);
    low_parts_t parts;
    parts.low = 32'(a[15:0]) * 32'(b[15:0]);
    parts.cross_1 = a[15:0] * b[31:16];
    parts.cross_2 = a[31:16] * b[15:0];
    return parts;
  endfunction

  function automatic logic [63:0] add(input parts_t parts);
    return {parts.high, parts.low} + {15'd0, 33'(parts.cross_1) + 33'(parts.cross_2), 16'd0};
  endfunction

  function automatic logic [31:0] add_low(input low_parts_t parts);
    return {parts.low[31:16] + parts.cross_1 + parts.cross_2, parts.low[15:0]};
  endfunction

  logic [191:0] key_q;  // key_i may come from far away
  logic [1:0][31:0] low_q, high_q;
  parts_t [1:0] parts_q;
  logic [1:0][63:0] product_q;
  logic [63:0] sum_q, folded_q;
  parts_t low_parts_q;
  logic [63:0] low_product_q;
  low_parts_t [1:0] cross_parts_q;
  logic [1:0][31:0] cross_q;
  logic [63:0] multiplier;

  assign multiplier = key_q[191:128];

  always_ff @(posedge clk_i) begin
    key_q <= key_i;
    for (int unsigned i = 0; i < 2; i++) begin
      low_q[i] <= words_i[64*i+:32] + key_q[64*i+:32];
      high_q[i] <= words_i[64*i+32+:32] + key_q[64*i+32+:32];
      parts_q[i] <= multiply(low_q[i], high_q[i]);
      product_q[i] <= add(parts_q[i]);
    end
    sum_q <= product_q[0] + product_q[1];
    folded_q <= {sum_q[63:32], sum_q[31:0] ^ sum_q[63:32]};
    // Low 64 bits of a 64 x 64-bit product: one whole product, and the low halves of two others.
    low_parts_q <= multiply(folded_q[31:0], multiplier[31:0]);
    cross_parts_q[0] <= multiply_low(folded_q[31:0], multiplier[63:32]);
    cross_parts_q[1] <= multiply_low(folded_q[63:32], multiplier[31:0]);
    low_product_q <= add(low_parts_q);
    cross_q[0] <= add_low(cross_parts_q[0]);
    cross_q[1] <= add_low(cross_parts_q[1]);
    hash_o <= {low_product_q[63:32] + cross_q[0] + cross_q[1], low_product_q[31:0]};
  end

endmodule
