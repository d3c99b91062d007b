// SPDX-License-Identifier: Apache-2.0
//
// Simple dual-port memory: one write port and one read port. Only this module and ls_transfer_ram, which has true dual
// ports, infer RAM blocks, so that a port to another FPGA family changes these two files alone.
//
// Interface: a write takes effect on the clock edge. A read of the address that is written on the same edge
// returns the old content. With NeverCollides, the user of the module makes sure that this does not happen while read_i
// is 1. The macro LS_SMALL_LUT_RAM is for FPGAs whose RAM blocks return undefined data then: without NeverCollides, the
// RAM is written one cycle late, and what is written in the cycle of a read reaches the output beside it.
// Latency: two cycles from address to data (the second is the output register of the RAM block).
// Throughput: one read and one write in each cycle.
// With SkipsIdle (see ls_pipeline_pkg), data are valid only two cycles after read_i was 1; otherwise read_i has no
// effect.
// Contents: undefined after power-on; zero in simulation. Reset does not change them.

module ls_ram #(
    parameter int unsigned Width = 64,
    parameter int unsigned Depth = 512,
    parameter Style = "block",  // "block", "ultra", "distributed"
    parameter bit NeverCollides = 1'b0,
    parameter bit SkipsIdle = 1'b0,
    localparam int unsigned AddressBits = $clog2(Depth)
) (
    input logic clk_i,

    input logic write_i,
    input logic [AddressBits-1:0] write_address_i,
    input logic [Width-1:0] write_data_i,

    input  logic read_i,
    input  logic [AddressBits-1:0] read_address_i,
    output logic [      Width-1:0] read_data_o
);

`ifdef LS_SMALL_LUT_RAM
  localparam bit WritesLate = !NeverCollides;
`else
  localparam bit WritesLate = 1'b0;
`endif

`ifdef SYNTHESIS
  (* ram_style = Style, no_rw_check = NeverCollides || WritesLate *)
`endif
  logic [Width-1:0] memory[Depth];
`ifndef SYNTHESIS
  // A loop, because Verilator makes one constant for each entry of an assignment pattern.
  initial for (int unsigned entry = 0; entry < Depth; entry++) memory[entry] = '0;
`endif
  logic is_read_q, write;
  logic [AddressBits-1:0] write_address;
  logic [Width-1:0] write_data, read_q, out_q;

  always_ff @(posedge clk_i) begin
    if (write) memory[write_address] <= write_data;
    is_read_q <= read_i;
    if (!SkipsIdle || read_i) read_q <= memory[read_address_i];
    if (!SkipsIdle || is_read_q) out_q <= read_q;
  end

  if (WritesLate) begin : gen_late
    logic write_q, is_written_d;
    logic [1:0] is_written_q;  // the address was written in the cycle of the read
    logic [AddressBits-1:0] address_q;
    logic [Width-1:0] data_q;
    logic [1:0][Width-1:0] written_q;

    assign write = write_q;
    assign write_address = address_q;
    assign write_data = data_q;
    assign is_written_d = write_q && address_q == read_address_i;
    assign read_data_o = is_written_q[1] ? written_q[1] : out_q;

    always_ff @(posedge clk_i) begin
      write_q <= write_i;
      address_q <= write_address_i;
      data_q <= write_data_i;
      is_written_q <= {is_written_q[0], is_written_d};
      written_q <= {written_q[0], data_q};
    end
  end else begin : gen_direct
    assign write = write_i;
    assign write_address = write_address_i;
    assign write_data = write_data_i;
    assign read_data_o = out_q;
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    assert (!NeverCollides || !write_i || !read_i || write_address_i != read_address_i)
    else $error("an address was read while it was written");
  end
`endif

endmodule
