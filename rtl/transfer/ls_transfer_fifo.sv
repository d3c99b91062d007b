// SPDX-License-Identifier: Apache-2.0
//
// Queue at the end of a pipeline that never waits. The user of the queue counts free places itself before it starts
// work, so the queue has no ready output; an entry that is pushed into a full queue would be lost.
//
// Latency: an entry is visible at the output one cycle after it was pushed. data_o is stable from valid_o until
// ready_i takes the entry. As long as there is room, data_i is written to the next free place in every cycle, so the
// write enable of the memory is a register.

module ls_transfer_fifo #(
    parameter type T = logic [7:0],
    parameter int unsigned Depth = 16,  // power of two
    localparam int unsigned AddressBits = $clog2(Depth)
) (
    input logic clk_i,
    input logic rst_ni,

    input logic push_i,
    input T     data_i,

    output logic valid_o,
    input  logic ready_i,
    output T     data_o,

    output logic pop_o  // 1 in each cycle in which an entry leaves
`ifdef FORMAL,
    output logic [AddressBits:0] count_o,
    output T [Depth-1:0] entries_o  // oldest first
`endif
);

  (* ram_style = "distributed" *)
  T memory[Depth];
  logic [AddressBits:0] write_q, read_q;

  logic valid_q, has_room_q, is_single, is_last;

  assign is_single = write_q == read_q + 1'b1;
  assign is_last = write_q - read_q == (AddressBits + 1)'(Depth - 1);
  assign valid_o = valid_q;
  assign data_o  = memory[read_q[AddressBits-1:0]];
  assign pop_o   = valid_o && ready_i;

  always_ff @(posedge clk_i) begin
    if (has_room_q) memory[write_q[AddressBits-1:0]] <= data_i;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      write_q <= '0;
      read_q  <= '0;
      valid_q <= 1'b0;
      has_room_q <= 1'b1;
    end else begin
      valid_q <= push_i || (valid_q && !(ready_i && is_single));
      has_room_q <= pop_o || (has_room_q && !(push_i && is_last));
      if (push_i) write_q <= write_q + 1'b1;
      if (pop_o) read_q <= read_q + 1'b1;
    end
  end

`ifdef FORMAL
  assign count_o = write_q - read_q;
  for (genvar i = 0; i < int'(Depth); i++) begin : gen_entry
    assign entries_o[i] = memory[AddressBits'(read_q + (AddressBits + 1)'(i))];
  end
  // There is room for each entry: none is lost.
  always_comb begin
    if (rst_ni) begin
      assert (count_o <= (AddressBits + 1)'(Depth) && valid_q == (count_o != '0));
      assert (has_room_q == (count_o != (AddressBits + 1)'(Depth)));
      assert (!push_i || has_room_q);
    end
  end
`endif

endmodule
