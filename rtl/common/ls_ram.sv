// SPDX-License-Identifier: Apache-2.0
//
// Memory with one write port and one read port. The only module that infers RAM blocks, so that a port to another
// FPGA family changes this file alone.
//
// Interface: a write takes effect on the clock edge. A read of the address that is written on the same edge
// returns the old content.
// Latency: two cycles from address to data (the second is the output register of the RAM block).
// Throughput: one read and one write in each cycle.
// Contents: undefined after power-on; zero in simulation. Reset does not change them.

module ls_ram #(
    parameter int unsigned Width = 64,
    parameter int unsigned Depth = 512,
    parameter Style = "block",  // "block", "ultra", "distributed"
    localparam int unsigned AddressBits = $clog2(Depth)
) (
    input logic clk_i,

    input logic write_i,
    input logic [AddressBits-1:0] write_address_i,
    input logic [Width-1:0] write_data_i,

    input  logic [AddressBits-1:0] read_address_i,
    output logic [      Width-1:0] read_data_o
);

`ifdef SYNTHESIS
  (* ram_style = Style *)
  logic [Width-1:0] memory[Depth];
`else
  // A loop, and not an array of zeros: Verilator writes such an array out, so that the model would grow with the depth.
  logic [Width-1:0] memory[Depth];
  initial for (int unsigned i = 0; i < Depth; i++) memory[i] = '0;
`endif
  logic [Width-1:0] read_q, out_q;

  always_ff @(posedge clk_i) begin
    if (write_i) memory[write_address_i] <= write_data_i;
    read_q <= memory[read_address_i];
    out_q  <= read_q;
  end

  assign read_data_o = out_q;

endmodule
