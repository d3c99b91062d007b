// SPDX-License-Identifier: Apache-2.0
//
// First-in-first-out queue in a RAM block, for hundreds of wide entries. A small ls_fifo in front of the output
// hides the latency of the RAM.
//
// Interface: ready/valid on both sides, as in ls_fifo, if Slack is 0. Otherwise the queue takes in each entry for which
// valid_i is 1, whatever ready_o is. After ready_o has become 0, the source may send at most Slack entries, because so
// many places are still free. A source with Slack registers between ready_o and valid_i loses nothing by this.
// Latency: four cycles from input to output. Throughput: one entry in each cycle.

module ls_ram_fifo #(
    parameter type T = logic [7:0],
    parameter int unsigned Depth = 512,  // power of two; the queue holds at least this number of entries
    parameter int unsigned Slack = 0,  // entries that may come after ready_o has become 0
    parameter Style = "block",
    parameter bit SkipsIdle = 1'b0  // see ls_pipeline_pkg
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

  localparam int unsigned AddressBits = $clog2(Depth);
  // Entries that are read but not given out: the RAM has a latency of two cycles, and a read is issued one cycle
  // after the space for it became free.
  localparam int unsigned AheadMax = 8;
  localparam int unsigned AheadBits = $clog2(AheadMax) + 1;

  logic [AddressBits-1:0] write_q, read_q;
  logic [AddressBits:0] stored_q;  // entries in the RAM
  logic ready_q, is_stored_q;  // there is space for more than Slack entries; there is an entry
  logic push, fetch, ahead_ready;
  logic [1:0] fetched_q;
  logic [AheadBits-1:0] waiting_q;
  logic [$bits(T)-1:0] read_data;
  logic [AheadBits-1:0] unused_count;

  assign ready_o = ready_q;
  assign push = valid_i && (Slack != 0 || ready_q);
  assign fetch = is_stored_q && waiting_q < AheadBits'(AheadMax);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      write_q <= '0;
      read_q <= '0;
      stored_q <= '0;
      ready_q <= 1'b1;
      is_stored_q <= 1'b0;
      fetched_q <= '0;
      waiting_q <= '0;
    end else begin
      if (push) write_q <= write_q + 1'b1;
      if (fetch) read_q <= read_q + 1'b1;
      if (push && !fetch) begin
        stored_q <= stored_q + 1'b1;
        ready_q <= stored_q < (AddressBits + 1)'(Depth - 1 - Slack);
        is_stored_q <= 1'b1;
      end else if (fetch && !push) begin
        stored_q <= stored_q - 1'b1;
        ready_q <= stored_q <= (AddressBits + 1)'(Depth - Slack);
        is_stored_q <= stored_q != (AddressBits + 1)'(1);
      end
      fetched_q <= {fetched_q[0], fetch};
      waiting_q <= waiting_q + AheadBits'(fetch) - AheadBits'(valid_o && ready_i);
    end
  end

  ls_ram #(
      .Width($bits(T)),
      .Depth(Depth),
      .NeverCollides(1'b1),
      .Style(Style),
      .SkipsIdle(SkipsIdle)
  ) u_ram (
      .clk_i,
      .write_i(push),
      .write_address_i(write_q),
      .write_data_i(data_i),
      .read_i(fetch),
      .read_address_i(read_q),
      .read_data_o(read_data)
  );

  ls_fifo #(
      .T(T),
      .Depth(AheadMax),
      .HasRoom(1'b1)
  ) u_ahead (
      .clk_i,
      .rst_ni,
      .valid_i(fetched_q[1]),
      .ready_o(ahead_ready),
      .data_i (T'(read_data)),
      .valid_o,
      .ready_i,
      .data_o,
      .count_o(unused_count)
  );

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (!fetched_q[1] || ahead_ready) else $error("an entry was read without space for it");
      assert (!push || stored_q != (AddressBits + 1)'(Depth)) else $error("an entry came without space for it");
    end
  end
`endif

endmodule
