// SPDX-License-Identifier: Apache-2.0
//
// Host interface of a shell: the AXI4-Lite window with its registers, in front of the command stream and the counters.
//
// Interface: s_axil is synchronous to axil_clk_i, everything else to clk_i; the clocks may have any relation.
// m_command goes to the pipeline; s_command is the host's own stream of commands, by DMA, and may be tied to 0.
// now_ns_o is the clock of the leases.

module ls_control
  import ls_pkg::*;
  import ls_control_pkg::*;
#(
    parameter logic [31:0] Sizes = '0,  // of the tables, for the word `table`
    parameter int unsigned Counters = SpvCounters,  // of the service
    parameter int unsigned CountersAt = AxilCountersSpvAt  // address of the first one
) (
    input logic axil_clk_i,
    input logic axil_rst_ni,

    input logic s_axil_awvalid,
    output logic s_axil_awready,
    input logic [AddressBits-1:0] s_axil_awaddr,
    input logic s_axil_wvalid,
    output logic s_axil_wready,
    input logic [31:0] s_axil_wdata,
    input logic [3:0] s_axil_wstrb,
    output logic s_axil_bvalid,
    input logic s_axil_bready,
    output logic [1:0] s_axil_bresp,
    input logic s_axil_arvalid,
    output logic s_axil_arready,
    input logic [AddressBits-1:0] s_axil_araddr,
    output logic s_axil_rvalid,
    input logic s_axil_rready,
    output logic [31:0] s_axil_rdata,
    output logic [1:0] s_axil_rresp,

    input logic clk_i,
    input logic rst_ni,

    input logic s_command_tvalid,
    output logic s_command_tready,
    input logic [511:0] s_command_tdata,

    output logic m_command_tvalid,
    input logic m_command_tready,
    output logic [511:0] m_command_tdata,

    input logic [31:0] barrier_i,
    input logic [DropReasons-1:0][63:0] drops_i,
    input logic [Counters-1:0][63:0] counters_i,

    output logic [63:0] now_ns_o
);

  logic bus_request_valid, bus_response_valid, request_valid, response_valid;
  bus_request_t bus_request, request;
  bus_response_t bus_response, response;
  command_t command;

  ls_axil u_axil (
      .clk_i(axil_clk_i),
      .rst_ni(axil_rst_ni),
      .s_axil_awvalid,
      .s_axil_awready,
      .s_axil_awaddr,
      .s_axil_wvalid,
      .s_axil_wready,
      .s_axil_wdata,
      .s_axil_wstrb,
      .s_axil_bvalid,
      .s_axil_bready,
      .s_axil_bresp,
      .s_axil_arvalid,
      .s_axil_arready,
      .s_axil_araddr,
      .s_axil_rvalid,
      .s_axil_rready,
      .s_axil_rdata,
      .s_axil_rresp,
      .request_valid_o(bus_request_valid),
      .request_o(bus_request),
      .response_valid_i(bus_response_valid),
      .response_i(bus_response)
  );

  ls_axil_cross u_cross (
      .bus_clk_i(axil_clk_i),
      .bus_rst_ni(axil_rst_ni),
      .request_valid_i(bus_request_valid),
      .request_i(bus_request),
      .response_valid_o(bus_response_valid),
      .response_o(bus_response),
      .clk_i,
      .rst_ni,
      .request_valid_o(request_valid),
      .request_o(request),
      .response_valid_i(response_valid),
      .response_i(response)
  );

  ls_registers #(
      .Sizes(Sizes),
      .Counters(Counters),
      .CountersAt(CountersAt)
  ) u_registers (
      .clk_i,
      .rst_ni,
      .request_valid_i(request_valid),
      .request_i(request),
      .response_valid_o(response_valid),
      .response_o(response),
      .s_command_valid_i(s_command_tvalid),
      .s_command_ready_o(s_command_tready),
      .s_command_i(command_t'(s_command_tdata)),
      .m_command_valid_o(m_command_tvalid),
      .m_command_ready_i(m_command_tready),
      .m_command_o(command),
      .barrier_i,
      .drops_i,
      .counters_i,
      .now_ns_o
  );

  assign m_command_tdata = command;

endmodule
