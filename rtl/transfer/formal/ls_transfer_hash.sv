// SPDX-License-Identifier: Apache-2.0
//
// Replaces the hash in the proof of ls_transfer_store, which does not depend on the values: two cycles, and buckets that
// come from the low bits of the id.

module ls_transfer_hash #(
    parameter int unsigned BucketBits = 1,
    localparam int unsigned KeyBits = 192
) (
    input logic clk_i,
    input logic [KeyBits-1:0] key_i,
    input logic [127:0] id_i,
    output logic [BucketBits-1:0] first_o,
    output logic [BucketBits-1:0] second_o
);

  logic [BucketBits-1:0] first1_q, first2_q;

  always_ff @(posedge clk_i) begin
    first1_q <= id_i[BucketBits-1:0];
    first2_q <= first1_q;
  end

  assign first_o = first2_q;
  assign second_o = ~first2_q;

endmodule
