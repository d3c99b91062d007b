// SPDX-License-Identifier: Apache-2.0
//
// Carries the requests of ls_axil from the clock of the bus to the clock of the pipeline, and their responses back.
// The clocks may have any relation.
//
// Interface: as between ls_axil and ls_registers, on both sides. A level goes over and comes back (four phases), so
// the reset of one side alone cannot leave the other side waiting: a request that the pipeline lost in its reset is
// executed after it. Request and response do not change while the other side reads them; constraints have to limit
// their delay to one cycle of the receiving clock (rtl/syn/vivado).
// Latency: about two cycles of each clock in each direction.

module ls_axil_cross
  import ls_control_pkg::*;
(
    input logic bus_clk_i,
    input logic bus_rst_ni,
    input logic request_valid_i,
    input bus_request_t request_i,
    output logic response_valid_o,
    output bus_response_t response_o,

    input logic clk_i,
    input logic rst_ni,
    output logic request_valid_o,
    output bus_request_t request_o,
    input logic response_valid_i,
    input bus_response_t response_i
);

  (* async_reg = "true" *)logic [1:0] ask_q;
  (* async_reg = "true" *)logic [1:0] answer_q;
  logic asks_q, answers_q, request_valid_q;
  bus_response_t response_q;

  // ---- side of the bus ----

  // A new question waits until the answer to the last one is gone.
  always_ff @(posedge bus_clk_i) begin
    if (!bus_rst_ni) begin
      asks_q <= 1'b0;
      response_valid_o <= 1'b0;
      answer_q <= '0;
    end else begin
      answer_q <= {answer_q[0], answers_q};
      response_valid_o <= asks_q && answer_q[1];
      if (asks_q && answer_q[1]) asks_q <= 1'b0;
      else if (request_valid_i && !response_valid_o && !answer_q[1]) asks_q <= 1'b1;
    end
  end

  always_ff @(posedge bus_clk_i) if (asks_q && answer_q[1]) response_o <= response_q;

  // ---- side of the pipeline ----

  assign request_valid_o = request_valid_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      ask_q <= '0;
      request_valid_q <= 1'b0;
      answers_q <= 1'b0;
    end else begin
      ask_q <= {ask_q[0], asks_q};
      if (request_valid_q) begin
        if (response_valid_i) begin
          request_valid_q <= 1'b0;
          answers_q <= 1'b1;
        end
      end else if (answers_q) begin
        answers_q <= ask_q[1];
      end else begin
        request_valid_q <= ask_q[1];
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (!request_valid_q && ask_q[1]) request_o <= request_i;
    if (request_valid_q && response_valid_i) response_q <= response_i;
  end

endmodule
