// SPDX-License-Identifier: Apache-2.0
//
// Registers with the addresses of the interface (spec/rtl.toml), which all services have, and the port of the service.
//
// Interface: select_i selects register index_i, and value_i is its value one cycle later; other registers are ignored.
// The value is in endpoint_o one cycle after value_i. Each register has a bit of its own that enables it.
// After a reset no address is answered and the service is off, so that everything is forwarded.

module ls_endpoint
  import ls_pkg::*;
  import ls_pipeline_pkg::*;
#(
    parameter int unsigned PortRegister = RegisterSpvPort
) (
    input logic clk_i,
    input logic rst_ni,

    input logic select_i,
    input logic [RegisterIndexBits-1:0] index_i,
    input logic [RegisterV6Bits-1:0] value_i,

    output endpoint_t endpoint_o
);

  typedef struct packed {
    logic mac;
    logic loopback;
    logic v4_own;
    logic v4_answered;
    logic [RegisterV4Count-1:0] v4;
    logic v6_own;
    logic v6_answered;
    logic [RegisterV6Count-1:0] v6;
    logic port;
  } select_t;

  select_t select, select_q;

  always_comb begin
    select.mac = select_i && index_i == RegisterIndexBits'(RegisterMac);
    select.loopback = select_i && index_i == RegisterIndexBits'(RegisterLoopback);
    select.v4_own = select_i && index_i == RegisterIndexBits'(RegisterV4Own);
    select.v4_answered = select_i && index_i == RegisterIndexBits'(RegisterV4Answered);
    select.v6_own = select_i && index_i == RegisterIndexBits'(RegisterV6Own);
    select.v6_answered = select_i && index_i == RegisterIndexBits'(RegisterV6Answered);
    select.port = select_i && index_i == RegisterIndexBits'(PortRegister);
    for (int unsigned i = 0; i < RegisterV4Count; i++) begin
      select.v4[i] = select_i && index_i == RegisterIndexBits'(RegisterV4 + i);
    end
    for (int unsigned i = 0; i < RegisterV6Count; i++) begin
      select.v6[i] = select_i && index_i == RegisterIndexBits'(RegisterV6 + i);
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) select_q <= '0;
    else select_q <= select;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      endpoint_o.port <= '0;
      endpoint_o.v4_answered <= '0;
      endpoint_o.v6_answered <= '0;
    end else begin
      if (select_q.port) endpoint_o.port <= value_i[15:0];
      if (select_q.v4_answered) endpoint_o.v4_answered <= value_i[RegisterV4AnsweredBits-1:0];
      if (select_q.v6_answered) endpoint_o.v6_answered <= value_i[RegisterV6AnsweredBits-1:0];
    end
  end

  always_ff @(posedge clk_i) begin
    if (select_q.mac) endpoint_o.mac <= value_i[RegisterMacBits-1:0];
    if (select_q.loopback) endpoint_o.loopback <= value_i[0];
    if (select_q.v4_own) endpoint_o.v4_own <= value_i[RegisterV4OwnBits-1:0];
    if (select_q.v6_own) endpoint_o.v6_own <= value_i[RegisterV6OwnBits-1:0];
    for (int unsigned i = 0; i < RegisterV4Count; i++) begin
      if (select_q.v4[i]) begin
        endpoint_o.v4[i] <= value_i[31:0];
        endpoint_o.v4_broadcast[i] <= value_i[63:32];
      end
    end
    for (int unsigned i = 0; i < RegisterV6Count; i++) begin
      if (select_q.v6[i]) endpoint_o.v6[i] <= value_i[RegisterV6Bits-1:0];
    end
  end

endmodule
