// SPDX-License-Identifier: Apache-2.0
//
// Proof about the AXI4 port of ls_spv_memory with small queues: an address or a line that is offered stays, unchanged,
// until the memory accepts it, and data are never refused.

module ls_spv_memory_proof
  import ls_spv_pkg::*;
(
    input logic clk_i,
    input logic rst_ni,

    input control_t control_i,
    input logic [63:0] now_ns_i,
    input match_t match_i,
    input logic [31:0] match_first_i,
    input logic [255:0] match_txid_i,
    input logic decision_taken_i,
    input logic line_write_i,
    input logic [3:0] line_index_i,
    input logic [31:0] line_generation_i,
    input logic [1:0] line_block_i,
    input logic [255:0] line_txid_i,

    input logic m_axi_awready,
    input logic m_axi_wready,
    input logic [1:0] m_axi_bresp,
    input logic m_axi_bvalid,
    input logic m_axi_arready,
    input logic [511:0] m_axi_rdata,
    input logic [1:0] m_axi_rresp,
    input logic m_axi_rlast,
    input logic m_axi_rvalid
);

  logic [63:0] m_axi_awaddr, m_axi_araddr;
  logic [511:0] m_axi_wdata;
  logic [7:0] m_axi_arlen;
  logic m_axi_awvalid, m_axi_wvalid, m_axi_arvalid, m_axi_bready, m_axi_rready;
  match_t match_o;
  logic line_ready_o, lines_done_o, first_write_o, first_clear_o;
  logic [2:0] first_index_o;
  logic [31:0] first_generation_o;
  logic [1:0] first_block_o;
  logic [255:0] first_txid_o;
  logic [MemoryCounters-1:0][63:0] counters_o;

  ls_spv_memory #(
      .LineBits(4),
      .FirstLineBits(3),
      .BlockBits(2),
      .Frames(16),
      .Decisions(4),
      .Reads(4),
      .Writes(8)
  ) u_memory (
      .*
  );

  logic is_first_q = 1'b1;
  logic address_waits_q, line_address_waits_q, line_waits_q;
  logic [63:0] address_q, line_address_q;
  logic [7:0] length_q;
  logic [511:0] line_q;

  always_ff @(posedge clk_i) begin
    is_first_q <= 1'b0;
    address_waits_q <= rst_ni && m_axi_arvalid && !m_axi_arready;
    line_address_waits_q <= rst_ni && m_axi_awvalid && !m_axi_awready;
    line_waits_q <= rst_ni && m_axi_wvalid && !m_axi_wready;
    address_q <= m_axi_araddr;
    length_q <= m_axi_arlen;
    line_address_q <= m_axi_awaddr;
    line_q <= m_axi_wdata;
  end

  always_comb begin
    assume (!is_first_q || !rst_ni);
    if (!is_first_q && rst_ni) begin
      assert (m_axi_rready);
      if (address_waits_q) assert (m_axi_arvalid && m_axi_araddr == address_q && m_axi_arlen == length_q);
      if (line_address_waits_q) assert (m_axi_awvalid && m_axi_awaddr == line_address_q);
      if (line_waits_q) assert (m_axi_wvalid && m_axi_wdata == line_q);
      // A line of the first level is never written and cleared at the same time.
      assert (!first_write_o || !first_clear_o);
      if (first_clear_o) assert (first_generation_o == '0);
    end
  end

endmodule
