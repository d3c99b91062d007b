// SPDX-License-Identifier: Apache-2.0
//
// Proof of ls_transfer_sum, at full width with a queue of 4 sums. All bits of the words are free in each cycle.
//
// The tasks `pipeline` (Lead 6) and `early` (Lead 0) compare the module with a reference that has the same number of
// registers: each sum that valid_i asks for leaves once, in order, and is that of the words of Lead cycles before
// valid_i. It is at the output exactly nine cycles after its words, or when the sums before it have been taken, and
// is stable until it is taken. The proof follows one sum, which mark_i chooses freely.
//
// The task `values` is about the module and the reference without the registers of their arithmetic: Yosys replaces
// these with wires. For all words, the sum of either is that of transfer_scan in xdp/transfer_native.h: the sum of the
// products of the halves x and y of each word, combined with its key.
//
// Multiplications of 32 x 32 bits are too hard for the solver. With x = a + 2^17 b and y = c + 2^18 d, the reference
// computes ac + 2^17 bc + 2^18 ad + 2^35 bd. Yosys finds that the module and the reference multiply the same bits, and
// the task `values` leaves the results of these multiplications free. By the distributive law, which the solver does
// not check, the result is x * y. The task `few_bits` compares the product of the first word with x * y directly: x has
// free bits at 0, 16 to 18 and 31, y at 0, 17 to 19 and 31, and all other bits of a half have one free value.
//
// Assumed: at most Depth sums have been asked for and not been taken. No sum is asked for whose words came before the
// first cycle.

module ls_transfer_sum_proof #(
    parameter int unsigned Depth = 4,
    parameter int unsigned Lead = 6,
    parameter bit Values = 1'b0,
    parameter bit FewBits = 1'b0
) (
    input logic clk_i,
    input logic rst_ni,

    input logic mark_i,
    input logic [11*64-1:0] words_i,
    input logic valid_i,
    input logic ready_i
);

  localparam int unsigned Words = 11;
  localparam int unsigned Latency = 9;  // cycles

  typedef logic [63:0] word_t;

  localparam word_t KeyStep = 64'h9e3779b97f4a7c15;
  localparam word_t FreeBits = {32'h800e_0001, 32'h8007_0001};

  logic valid;
  word_t first, sum;
  logic [Words*64-1:0] words;

  assign first = FreeBits & words_i[63:0] | ~FreeBits & {{32{words_i[33]}}, {32{words_i[1]}}};
  assign words = FewBits ? {words_i[Words*64-1:64], first ^ KeyStep} : words_i;

  ls_transfer_sum #(
      .Depth(Depth),
      .Lead (Lead)
  ) u_dut (
      .clk_i,
      .rst_ni,
      .words_i(words),
      .valid_i,
      .valid_o(valid),
      .ready_i,
      .sum_o  (sum)
  );

  // ---- the sums; the names have the age of the words in cycles ----

  word_t [Words-1:0] products_2;
  word_t [15:0] products_3q, products_4q;
  word_t [7:0] sums_5q;
  word_t [3:0] sums_6q;
  word_t [1:0] sums_7q;
  word_t sum_8q;

  for (genvar word = 0; word < int'(Words); word++) begin : gen_word
    localparam word_t Key = KeyStep * (word_t'(word) + 64'd1);
    logic [31:0] x_q, y_q;
    logic [16:0] a;
    logic [14:0] b;
    logic [17:0] c;
    logic [13:0] d;
    logic [34:0] ac_q;
    logic [32:0] bc_q;
    logic [30:0] ad_q;
    logic [28:0] bd_q;
    assign {b, a} = x_q;
    assign {d, c} = y_q;
    always_ff @(posedge clk_i) begin
      {y_q, x_q} <= words[64*word+:64] ^ Key;
      ac_q <= 35'(a) * 35'(c);
      bc_q <= 33'(b) * 33'(c);
      ad_q <= 31'(a) * 31'(d);
      bd_q <= 29'(b) * 29'(d);
    end
    assign products_2[word] = word_t'(ac_q) + (word_t'(bc_q) << 17) + (word_t'(ad_q) << 18) + (word_t'(bd_q) << 35);
  end

  always_ff @(posedge clk_i) begin
    products_3q <= 1024'(products_2);
    products_4q <= products_3q;
    for (int unsigned i = 0; i < 8; i++) sums_5q[i] <= products_4q[2*i] + products_4q[2*i+1];
    for (int unsigned i = 0; i < 4; i++) sums_6q[i] <= sums_5q[2*i] + sums_5q[2*i+1];
    for (int unsigned i = 0; i < 2; i++) sums_7q[i] <= sums_6q[2*i] + sums_6q[2*i+1];
    sum_8q <= sums_7q[0] + sums_7q[1];
  end

  word_t [Words-1:0] module_products;
  word_t module_sum;
  for (genvar word = 0; word < int'(Words); word++) begin : gen_product
    assign module_products[word] = u_dut.gen_word[word].product_q;
  end
  assign module_sum = u_dut.gen_level[3].sums_q[0];

  if (FewBits) begin : gen_few_bits
    always_comb assert (module_products[0] == word_t'(first[31:0]) * word_t'(first[63:32]));
  end else if (Values) begin : gen_values
    word_t total, module_total;
    always_comb begin
      total = '0;
      module_total = '0;
      for (int unsigned word = 0; word < Words; word++) begin
        total = total + products_2[word];
        module_total = module_total + module_products[word];
        assert (module_products[word] == products_2[word]);
      end
      assert (module_sum == module_total);
      assert (sum_8q == total);
    end
  end else begin : gen_pipeline
    localparam int unsigned CountBits = 5;
    typedef logic [CountBits-1:0] count_t;

    logic [3:0] age_q = 4'd0;  // cycles since the first one; at most 8
    logic pop, push, was_waiting_q, is_marked_q;
    logic [Latency-1-Lead:0] asked;  // sums that were asked for 0, 1, ... cycles ago
    logic [Latency-1-Lead:1] asked_q;
    count_t under_way_q;  // sums that were asked for and not taken
    count_t waiting_q;  // those of them whose words came nine cycles ago or before
    count_t ahead_q;  // those of them that leave before the marked one
    word_t marked_q, was_sum_q;

    assign asked = {asked_q, valid_i};
    assign push  = asked[Latency-1-Lead];
    assign pop   = valid && ready_i;

    always_ff @(posedge clk_i) begin
      if (age_q != 4'd8) age_q <= age_q + 4'd1;
      was_waiting_q <= rst_ni && valid && !ready_i;
      was_sum_q <= sum;
      if (!rst_ni) begin
        asked_q <= '0;
        under_way_q <= '0;
        waiting_q <= '0;
        is_marked_q <= 1'b0;
      end else begin
        asked_q <= asked[Latency-2-Lead:0];
        under_way_q <= under_way_q + count_t'(valid_i) - count_t'(pop);
        waiting_q <= waiting_q + count_t'(push) - count_t'(pop);
        if (push && mark_i && !is_marked_q) begin
          is_marked_q <= 1'b1;
          ahead_q <= waiting_q - count_t'(pop);
          marked_q <= sum_8q;
        end else if (is_marked_q && pop) begin
          if (ahead_q == '0) is_marked_q <= 1'b0;
          ahead_q <= ahead_q - 1'b1;
        end
      end
    end

    always_comb begin
      assume (age_q != '0 || !rst_ni);
      assume (!valid_i || age_q >= 4'(Lead));
      assume (!valid_i || under_way_q < count_t'(Depth));
      if (age_q != '0 && rst_ni) begin
        assert (valid == (waiting_q != '0));
        if (was_waiting_q) assert (valid && sum == was_sum_q);
        if (is_marked_q && ahead_q == '0) assert (valid && sum == marked_q);
      end
    end

    // ---- relations that make the induction possible ----

    localparam int unsigned AddressBits = $clog2(Depth);
    logic [AddressBits-1:0] marked_at;
    assign marked_at = u_dut.u_sums.read_q + AddressBits'(ahead_q);

    for (genvar word = 0; word < int'(Words); word++) begin : gen_word_relation
      word_t module_parts;  // the parts of the product, one cycle before it
      assign module_parts = {u_dut.gen_word[word].at_35_2q, u_dut.gen_word[word].at_0_2q} +
                            (word_t'(u_dut.gen_word[word].middle_q) << 17);
      always_comb begin
        if (age_q >= 4'd3) assert (module_parts == products_3q[word]);
        if (age_q >= 4'd4) assert (module_products[word] == products_4q[word]);
      end
    end

    for (genvar i = 0; i < 8; i++) begin : gen_sum_relation
      always_comb begin
        if (age_q >= 4'd5) assert (u_dut.gen_level[0].sums_q[i] == sums_5q[i]);
        if (age_q >= 4'd6 && i < 4) assert (u_dut.gen_level[1].sums_q[i%4] == sums_6q[i%4]);
        if (age_q >= 4'd7 && i < 2) assert (u_dut.gen_level[2].sums_q[i%2] == sums_7q[i%2]);
        if (age_q >= 4'd8 && i < 1) assert (module_sum == sum_8q);
      end
    end

    always_comb begin
      assert (age_q <= 4'd8);
      for (int unsigned age = 1; age < Latency - Lead; age++) begin
        if (age_q != '0 && rst_ni && asked_q[age]) assert (age_q >= 4'(Lead + age));
      end
    end

    always_comb begin
      if (age_q != '0 && rst_ni) begin
        // u_sums, as in its own proof.
        assert (waiting_q <= count_t'(Depth) && waiting_q == count_t'(u_dut.u_sums.count_q));
        assert (AddressBits'(waiting_q) == AddressBits'(u_dut.u_sums.write_q - u_dut.u_sums.read_q));
        assert (u_dut.u_sums.ready_q == (waiting_q != count_t'(Depth)));
        assert (u_dut.u_sums.valid_q == (waiting_q != '0));
        if (u_dut.is_done) assert (u_dut.sums_ready);
        assert (u_dut.valid_q == asked_q);
        assert (under_way_q == waiting_q + count_t'($countones(asked_q)));
        assert (under_way_q <= count_t'(Depth));
        if (is_marked_q) assert (ahead_q < waiting_q && u_dut.u_sums.memory[marked_at] == marked_q);
      end
    end
  end

endmodule
