// SPDX-License-Identifier: Apache-2.0
//
// Registers with the addresses of the interface (spec/rtl.toml), which all services have, and the port of the service.
//
// Interface: write_i writes register index_i; other registers are ignored. The value is in endpoint_o one cycle later.
// After a reset no address is answered and the service is off, so that everything is forwarded.

module ls_endpoint
  import ls_pkg::*;
  import ls_pipeline_pkg::*;
#(
    parameter int unsigned PortRegister = RegisterSpvPort
) (
    input logic clk_i,
    input logic rst_ni,

    input logic write_i,
    input logic [31:0] index_i,
    input logic [RegisterV6Bits-1:0] value_i,

    output endpoint_t endpoint_o
);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      endpoint_o.port <= '0;
      endpoint_o.v4_answered <= '0;
      endpoint_o.v6_answered <= '0;
    end else if (write_i) begin
      case (index_i)
        PortRegister: endpoint_o.port <= value_i[15:0];
        RegisterV4Answered: endpoint_o.v4_answered <= value_i[RegisterV4AnsweredBits-1:0];
        RegisterV6Answered: endpoint_o.v6_answered <= value_i[RegisterV6AnsweredBits-1:0];
        default: ;
      endcase
    end
  end

  always_ff @(posedge clk_i) begin
    if (write_i) begin
      case (index_i)
        RegisterMac: endpoint_o.mac <= value_i[RegisterMacBits-1:0];
        RegisterLoopback: endpoint_o.loopback <= value_i[0];
        RegisterV4Own: endpoint_o.v4_own <= value_i[RegisterV4OwnBits-1:0];
        RegisterV6Own: endpoint_o.v6_own <= value_i[RegisterV6OwnBits-1:0];
        default: ;
      endcase
      for (int unsigned i = 0; i < RegisterV4Count; i++) begin
        if (index_i == RegisterV4 + i) begin
          endpoint_o.v4[i] <= value_i[31:0];
          endpoint_o.v4_broadcast[i] <= value_i[63:32];
        end
      end
      for (int unsigned i = 0; i < RegisterV6Count; i++) begin
        if (index_i == RegisterV6 + i) endpoint_o.v6[i] <= value_i[RegisterV6Bits-1:0];
      end
    end
  end

endmodule
