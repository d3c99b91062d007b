// SPDX-License-Identifier: Apache-2.0
//
// Barrier of the host: completes when all frames that were accepted before it have been passed on.
//
// Interface: set_i begins the barrier index_i; there must be none pending. pending_o is 1 until it completes, and
// barrier_o is then its index. accepted_i and passed_i count frames modulo 2^16. The barrier waits for the frames that
// are counted in the cycle after set_i, so the count of accepted frames may be late.

module ls_barrier (
    input logic clk_i,
    input logic rst_ni,

    input logic set_i,
    input logic [31:0] index_i,
    input logic [15:0] accepted_i,
    input logic [15:0] passed_i,

    output logic pending_o,
    output logic [31:0] barrier_o
);

  logic is_set_q;  // the barrier began in the cycle before
  logic has_passed_q;
  logic [15:0] at_q;
  logic [31:0] index_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      pending_o <= 1'b0;
      is_set_q <= 1'b0;
      barrier_o <= '0;
    end else if (is_set_q) begin
      is_set_q <= 1'b0;
    end else if (pending_o) begin
      if (has_passed_q) begin
        pending_o <= 1'b0;
        barrier_o <= index_q;
      end
    end else if (set_i) begin
      pending_o <= 1'b1;
      is_set_q  <= 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    // The difference is positive while frames that came before the barrier are in the pipeline.
    has_passed_q <= pending_o && !is_set_q && !has_passed_q && $signed(at_q - passed_i) <= 0;
    if (set_i) index_q <= index_i;
    if (is_set_q) at_q <= accepted_i;
  end

endmodule
