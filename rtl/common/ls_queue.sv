// SPDX-License-Identifier: Apache-2.0
//
// First-in-first-out queue of tens of wide entries: ls_fifo in distributed RAM, or ls_ram_fifo in RAM blocks.
//
// Interface: as that of ls_fifo, without count_o.
// Latency: one cycle with the style "distributed"; five with "block", of which one is for a register in front of the RAM
// blocks, which may be far apart. Throughput: one entry in each cycle.

module ls_queue #(
    parameter type T = logic [7:0],
    parameter int unsigned Depth = 64,  // power of two, 2 or more
`ifdef LS_SMALL_LUT_RAM
    parameter Style = "block"
`else
    parameter Style = "distributed"
`endif
) (
    input logic clk_i,
    input logic rst_ni,

    input  logic valid_i,
    output logic ready_o,
    input  T     data_i,

    output logic valid_o,
    input  logic ready_i,
    output T     data_o
);

  if (Style == "block") begin : gen_block
    logic valid_q;
    T data_q;

    always_ff @(posedge clk_i) begin
      valid_q <= rst_ni && valid_i && ready_o;
      data_q  <= data_i;
    end

    ls_ram_fifo #(
        .T(T),
        .Depth(Depth),
        .Slack(1)
    ) u_fifo (
        .clk_i,
        .rst_ni,
        .valid_i(valid_q),
        .ready_o,
        .data_i (data_q),
        .valid_o,
        .ready_i,
        .data_o
    );
  end else begin : gen_distributed
    logic [$clog2(Depth):0] unused_count;

    ls_fifo #(
        .T(T),
        .Depth(Depth)
    ) u_fifo (
        .clk_i,
        .rst_ni,
        .valid_i,
        .ready_o,
        .data_i,
        .valid_o,
        .ready_i,
        .data_o,
        .count_o(unused_count)
    );
  end

endmodule
