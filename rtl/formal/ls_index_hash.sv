// SPDX-License-Identifier: Apache-2.0
//
// Replaces the hash in the proof of ls_spv_lookup, which holds for any value of the hash: its upper three bits are
// those of key_i, which the proof chooses freely in each cycle, and of the lowest bits of the words of the same cycle.
// Latency: that of the hash, eight cycles.

module ls_index_hash (
    input logic clk_i,

    input logic [191:0] key_i,
    input logic [127:0] words_i,

    output logic [63:0] hash_o
);

  logic [2:0] bits, key_q;

  always_ff @(posedge clk_i) key_q <= key_i[63:61];

  ls_delay #(
      .T(logic [2:0]),
      .Cycles(8)
  ) u_delay (
      .clk_i,
      .valid_i(1'b1),
      .data_i(key_q ^ words_i[2:0]),
      .data_o(bits)
  );

  assign hash_o = {bits, 61'd0};

  logic unused;
  assign unused = &{1'b0, key_i[191:64], key_i[60:0], words_i[127:3]};

endmodule
