// SPDX-License-Identifier: Apache-2.0
//
// True dual-port memory, for the ids and the cells of the store. Only this module and ls_ram, which has one write port
// and one read port, infer RAM blocks, so that a port to another FPGA family changes these two files alone.
//
// Interface: in each cycle each port either writes or reads. If the two ports access one address in one cycle, and
// one of them writes, the data read is not defined; two writes to one address in one cycle are not allowed. The
// store avoids both cases, or ignores the data.
// Latency: two cycles from address to data (the second is the output register of the RAM block).
// Contents: undefined after power-on; random in the simulation, free in the proofs. Reset does not
// change them.

module ls_transfer_ram #(
    parameter int unsigned Width = 64,
    parameter int unsigned Depth = 512,
    // "block", "ultra" or "distributed". Only synthesis reads it.
    /* verilator lint_off UNUSEDPARAM */
    parameter Style = "block",
    /* verilator lint_on UNUSEDPARAM */
    localparam int unsigned AddressBits = $clog2(Depth)
) (
    input logic clk_i,

    input  logic                   a_write_i,
    input  logic [AddressBits-1:0] a_address_i,
    input  logic [      Width-1:0] a_data_i,
    output logic [      Width-1:0] a_data_o,

    input  logic                   b_write_i,
    input  logic [AddressBits-1:0] b_address_i,
    input  logic [      Width-1:0] b_data_i,
    output logic [      Width-1:0] b_data_o
`ifdef FORMAL,
    output logic [Depth-1:0][Width-1:0] content_o
`endif
);

  // no_rw_check tells Yosys that the data of a read which collides with a write is not defined.
`ifdef FORMAL
  (* ram_style = Style *)
`else
  (* ram_style = Style, no_rw_check *)
`endif
  logic [Width-1:0] memory[Depth];
  logic [Width-1:0] a_read_q, a_out_q, b_read_q, b_out_q;

  // A read that collides with a write gets other data than the memory has before or after it, so that a use of this data
  // is found.
  logic collides;
`ifdef SYNTHESIS
  assign collides = 1'b0;
`else
  assign collides = (a_write_i || b_write_i) && a_address_i == b_address_i;
`endif

  // Each port has a process of its own: in one process, the second write would have to win if both write to one
  // address, and synthesis would compare the addresses at the port. `always_ff` allows only one process for a variable.
  always @(posedge clk_i) begin
    if (a_write_i) memory[a_address_i] <= a_data_i;
    else a_read_q <= collides ? ~memory[a_address_i] : memory[a_address_i];
    a_out_q <= a_read_q;
  end

  always @(posedge clk_i) begin
    if (b_write_i) memory[b_address_i] <= b_data_i;
    else b_read_q <= collides ? ~memory[b_address_i] : memory[b_address_i];
    b_out_q <= b_read_q;
  end

`ifdef FORMAL
  for (genvar i = 0; i < int'(Depth); i++) begin : gen_content
    assign content_o[i] = memory[i];
  end
`endif

  assign a_data_o = a_out_q;
  assign b_data_o = b_out_q;

endmodule
