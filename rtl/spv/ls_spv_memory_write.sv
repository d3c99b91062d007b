// SPDX-License-Identifier: Apache-2.0
//
// Writes lines of the table of `spv` to external memory, and then removes their copies from the first level.
//
// A line is complete when the memory has acknowledged it, all reads that were issued before the acknowledgement have
// finished with their promotions, and its copy was cleared after that. A read that is issued later sees the new line,
// so from then on no copy of the old line exists. Lines are written in order, and many are in flight.
//
// Interface: line_write_i takes one line in each cycle, without back-pressure; line_ready_o is 1 while at least four
// more can be taken. lines_done_o is 1 when all lines are complete. A line is one AXI4 burst of one beat.
// clear_o asks for one cycle to empty the first level's four lines around clear_line_o; the port is always free.
// fault_o stays 1 after the memory refused a write, until the reset.

module ls_spv_memory_write
  import ls_spv_pkg::*;
#(
    parameter int unsigned LineBits = 22,
    parameter int unsigned Writes = 256,  // lines that are not complete, power of two
    parameter logic [63:0] Base = '0
) (
    input logic clk_i,
    input logic rst_ni,

    input logic line_write_i,
    input logic [LineBits-1:0] line_index_i,
    input logic [31:0] line_generation_i,
    input logic [31:0] line_slot_i,
    input logic [255:0] line_txid_i,
    output logic line_ready_o,
    output logic lines_done_o,
    output logic fault_o,

    input logic [15:0] issued_i,
    input logic [15:0] finished_i,

    output logic clear_o,
    output logic [LineBits-1:0] clear_line_o,

    output logic [63:0] m_axi_awaddr,
    output logic m_axi_awvalid,
    input logic m_axi_awready,
    output logic [511:0] m_axi_wdata,
    output logic m_axi_wvalid,
    input logic m_axi_wready,
    input logic [1:0] m_axi_bresp,
    input logic m_axi_bvalid,
    output logic m_axi_bready
);

  localparam int unsigned CountBits = $clog2(Writes) + 1;

  typedef struct packed {
    logic [LineBits-1:0] index;
    logic [31:0] generation;
    logic [31:0] slot;
    logic [255:0] txid;
  } write_t;

  typedef struct packed {
    logic [LineBits-1:0] index;
    logic [15:0] after;  // number of reads that must have finished
  } acknowledged_t;

  // ---- lines that are not complete; every queue has space for all of them ----

  logic [CountBits-1:0] open_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) open_q <= '0;
    else open_q <= open_q + CountBits'(line_write_i) - CountBits'(clear_o);
  end

  assign line_ready_o = open_q <= CountBits'(Writes - 4);
  assign lines_done_o = open_q == '0;

  // ---- address and data ----

  write_t write_in, write;
  memory_line_t data;
  logic writes_ready, write_valid, issue;
  logic [63:0] stamp_q;  // number of the write

  assign write_in = '{index: line_index_i, generation: line_generation_i, slot: line_slot_i, txid: line_txid_i};

  ls_ram_fifo #(
      .T(write_t),
      .Depth(Writes)
  ) u_writes (
      .clk_i,
      .rst_ni,
      .valid_i(line_write_i),
      .ready_o(writes_ready),
      .data_i (write_in),
      .valid_o(write_valid),
      .ready_i(issue),
      .data_o (write)
  );

  assign issue = write_valid && (!m_axi_awvalid || m_axi_awready) && (!m_axi_wvalid || m_axi_wready);

  always_comb begin
    data.low_txid = write.txid[191:0];
    data.low_stamp = stamp_q;
    data.high_txid = write.txid[255:192];
    data.generation = write.generation;
    data.slot = write.slot;
    data.reserved = '0;
    data.high_stamp = stamp_q;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      m_axi_awvalid <= 1'b0;
      m_axi_wvalid <= 1'b0;
      stamp_q <= 64'd1;
    end else begin
      if (issue || m_axi_awready) m_axi_awvalid <= issue;
      if (issue || m_axi_wready) m_axi_wvalid <= issue;
      stamp_q <= stamp_q + 64'(issue);
    end
  end

  always_ff @(posedge clk_i) begin
    if (issue) begin
      m_axi_awaddr <= Base | 64'({write.index, 6'd0});
      m_axi_wdata  <= data;
    end
  end

  // ---- acknowledgement ----

  logic [LineBits-1:0] acknowledged_index;
  logic indexes_ready, index_valid, acknowledge;
  acknowledged_t acknowledged_in, acknowledged;
  logic acknowledged_ready, acknowledged_valid;

  ls_ram_fifo #(
      .T(logic [LineBits-1:0]),
      .Depth(Writes)
  ) u_indexes (
      .clk_i,
      .rst_ni,
      .valid_i(issue),
      .ready_o(indexes_ready),
      .data_i (write.index),
      .valid_o(index_valid),
      .ready_i(acknowledge),
      .data_o (acknowledged_index)
  );

  assign m_axi_bready = index_valid;
  assign acknowledge = m_axi_bvalid && index_valid;
  // A read that is issued on this clock edge appears on the address channel after the acknowledgement.
  assign acknowledged_in = '{index: acknowledged_index, after: issued_i};

  always_ff @(posedge clk_i) begin
    if (!rst_ni) fault_o <= 1'b0;
    else if (acknowledge && m_axi_bresp[1]) fault_o <= 1'b1;
  end

  ls_ram_fifo #(
      .T(acknowledged_t),
      .Depth(Writes)
  ) u_acknowledged (
      .clk_i,
      .rst_ni,
      .valid_i(acknowledge),
      .ready_o(acknowledged_ready),
      .data_i (acknowledged_in),
      .valid_o(acknowledged_valid),
      .ready_i(clear_o),
      .data_o (acknowledged)
  );

  // ---- removal from the first level ----

  // The counters differ by less than half of their range: few reads are in flight, and every entry leaves soon.
  assign clear_o = acknowledged_valid && $signed(finished_i - acknowledged.after) >= 0;
  assign clear_line_o = acknowledged.index;

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (!line_write_i || writes_ready) else $error("a line was lost");
      assert (!issue || indexes_ready) else $error("an index was lost");
      assert (!acknowledge || acknowledged_ready) else $error("an acknowledgement was lost");
    end
  end
`endif

endmodule
