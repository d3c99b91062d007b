// SPDX-License-Identifier: Apache-2.0
//
// Plug-in for the 250 MHz box of OpenNIC: answers requests on the first network port, and connects the other ones
// through. Network port n belongs to PCIe function n. A function more than network ports, the last one, is the DMA of
// the commands, records and responses (ls_port).
//
// Interface: the ports of the shell's example `p2p_250mhz`, with one AXI4-Lite port, which the box gives to its plug-in
// (Xilinx/open-nic-shell, plugin/p2p/p2p_250mhz.sv and src/box_250mhz/box_250mhz.sv at commit 0a8a0497). AXI4-Lite has
// no write strobes there. axil_aclk (125 MHz) and axis_aclk (250 MHz) may have any relation. mod_rstn is synchronous to
// axil_aclk; mod_rst_done rises when the reset of the plug-in is over.
// tuser_size is the length of the frame in each of its beats. Bits of tuser_src and tuser_dst: 0 to 3 the PCIe
// function, 6 and above the network port.

module lineside_250mhz
  import ls_pkg::*;
  import ls_pipeline_pkg::*;
#(
    parameter int NUM_CMAC_PORT = 1,
    parameter int NUM_PHYS_FUNC = 1,  // NUM_CMAC_PORT, or one more for the DMA
    parameter bit Transfer = ls_shell_pkg::IsTransfer,
    parameter int unsigned LineBits = 16,
    parameter int unsigned BlockBits = 10,
    parameter LineStyle = "ultra",
    parameter BlockStyle = "block",
    parameter int unsigned BucketBits = 14,
    parameter int unsigned SessionBits = 10,
    parameter AccountStyle = "ultra"
) (
    input logic s_axil_awvalid,
    input logic [31:0] s_axil_awaddr,
    output logic s_axil_awready,
    input logic s_axil_wvalid,
    input logic [31:0] s_axil_wdata,
    output logic s_axil_wready,
    output logic s_axil_bvalid,
    output logic [1:0] s_axil_bresp,
    input logic s_axil_bready,
    input logic s_axil_arvalid,
    input logic [31:0] s_axil_araddr,
    output logic s_axil_arready,
    output logic s_axil_rvalid,
    output logic [31:0] s_axil_rdata,
    output logic [1:0] s_axil_rresp,
    input logic s_axil_rready,

    input logic [NUM_PHYS_FUNC-1:0] s_axis_qdma_h2c_tvalid,
    input logic [512*NUM_PHYS_FUNC-1:0] s_axis_qdma_h2c_tdata,
    input logic [64*NUM_PHYS_FUNC-1:0] s_axis_qdma_h2c_tkeep,
    input logic [NUM_PHYS_FUNC-1:0] s_axis_qdma_h2c_tlast,
    input logic [16*NUM_PHYS_FUNC-1:0] s_axis_qdma_h2c_tuser_size,
    input logic [16*NUM_PHYS_FUNC-1:0] s_axis_qdma_h2c_tuser_src,
    input logic [16*NUM_PHYS_FUNC-1:0] s_axis_qdma_h2c_tuser_dst,
    output logic [NUM_PHYS_FUNC-1:0] s_axis_qdma_h2c_tready,

    output logic [NUM_PHYS_FUNC-1:0] m_axis_qdma_c2h_tvalid,
    output logic [512*NUM_PHYS_FUNC-1:0] m_axis_qdma_c2h_tdata,
    output logic [64*NUM_PHYS_FUNC-1:0] m_axis_qdma_c2h_tkeep,
    output logic [NUM_PHYS_FUNC-1:0] m_axis_qdma_c2h_tlast,
    output logic [16*NUM_PHYS_FUNC-1:0] m_axis_qdma_c2h_tuser_size,
    output logic [16*NUM_PHYS_FUNC-1:0] m_axis_qdma_c2h_tuser_src,
    output logic [16*NUM_PHYS_FUNC-1:0] m_axis_qdma_c2h_tuser_dst,
    input logic [NUM_PHYS_FUNC-1:0] m_axis_qdma_c2h_tready,

    output logic [NUM_CMAC_PORT-1:0] m_axis_adap_tx_250mhz_tvalid,
    output logic [512*NUM_CMAC_PORT-1:0] m_axis_adap_tx_250mhz_tdata,
    output logic [64*NUM_CMAC_PORT-1:0] m_axis_adap_tx_250mhz_tkeep,
    output logic [NUM_CMAC_PORT-1:0] m_axis_adap_tx_250mhz_tlast,
    output logic [16*NUM_CMAC_PORT-1:0] m_axis_adap_tx_250mhz_tuser_size,
    output logic [16*NUM_CMAC_PORT-1:0] m_axis_adap_tx_250mhz_tuser_src,
    output logic [16*NUM_CMAC_PORT-1:0] m_axis_adap_tx_250mhz_tuser_dst,
    input logic [NUM_CMAC_PORT-1:0] m_axis_adap_tx_250mhz_tready,

    input logic [NUM_CMAC_PORT-1:0] s_axis_adap_rx_250mhz_tvalid,
    input logic [512*NUM_CMAC_PORT-1:0] s_axis_adap_rx_250mhz_tdata,
    input logic [64*NUM_CMAC_PORT-1:0] s_axis_adap_rx_250mhz_tkeep,
    input logic [NUM_CMAC_PORT-1:0] s_axis_adap_rx_250mhz_tlast,
    input logic [16*NUM_CMAC_PORT-1:0] s_axis_adap_rx_250mhz_tuser_size,
    input logic [16*NUM_CMAC_PORT-1:0] s_axis_adap_rx_250mhz_tuser_src,
    input logic [16*NUM_CMAC_PORT-1:0] s_axis_adap_rx_250mhz_tuser_dst,
    output logic [NUM_CMAC_PORT-1:0] s_axis_adap_rx_250mhz_tready,

    input  logic mod_rstn,
    output logic mod_rst_done,

    input logic axil_aclk,
    input logic axis_aclk
);

  localparam int unsigned PortShift = 6;  // bit of tuser_src and tuser_dst of the first network port
  localparam int unsigned ResetCycles = 100;  // of axil_aclk
  localparam bit HasDma = NUM_PHYS_FUNC > NUM_CMAC_PORT;

  typedef struct packed {
    logic [15:0] size;
    logic [15:0] source;
  } mark_t;

  // ---- reset ----

  logic [6:0] reset_left_q = 7'(ResetCycles);
  logic axil_rst_n, axis_rst_n, axis_done;

  always_ff @(posedge axil_aclk) begin
    if (!mod_rstn) reset_left_q <= 7'(ResetCycles);
    else if (reset_left_q != '0) reset_left_q <= reset_left_q - 1'b1;
    axil_rst_n   <= reset_left_q == '0;
    // The reset is done when it has ended in the domains of both clocks.
    mod_rst_done <= axil_rst_n && axis_done;
  end

  ls_reset_sync u_axis_reset (
      .clk_i (axis_aclk),
      .rst_ni(axil_rst_n),
      .rst_no(axis_rst_n)
  );
  ls_reset_sync u_done (
      .clk_i (axil_aclk),
      .rst_ni(axis_rst_n),
      .rst_no(axis_done)
  );

  // ---- first interface ----

  beat_t from_network, to_network, from_host, to_host, from_dma, to_dma;
  logic from_dma_valid, from_dma_ready, to_dma_valid, to_dma_ready;
  logic [15:0] to_dma_bytes;
  mark_t to_network_mark, to_host_mark;
  logic is_reply;
  assign from_network = '{
          last: s_axis_adap_rx_250mhz_tlast[0],
          keep: s_axis_adap_rx_250mhz_tkeep[63:0],
          data: s_axis_adap_rx_250mhz_tdata[511:0]
      };
  assign from_host = '{
          last: s_axis_qdma_h2c_tlast[0],
          keep: s_axis_qdma_h2c_tkeep[63:0],
          data: s_axis_qdma_h2c_tdata[511:0]
      };

  ls_port #(
      .T(mark_t),
      .Transfer(Transfer),
      .LineBits(LineBits),
      .BlockBits(BlockBits),
      .LineStyle(LineStyle),
      .BlockStyle(BlockStyle),
      .BucketBits(BucketBits),
      .SessionBits(SessionBits),
      .AccountStyle(AccountStyle)
  ) u_port (
      .axil_clk_i(axil_aclk),
      .axil_rst_ni(axil_rst_n),
      .s_axil_awvalid,
      .s_axil_awready,
      .s_axil_awaddr(s_axil_awaddr[AxilAddressBits-1:0]),
      .s_axil_wvalid,
      .s_axil_wready,
      .s_axil_wdata,
      .s_axil_wstrb(4'hf),
      .s_axil_bvalid,
      .s_axil_bready,
      .s_axil_bresp,
      .s_axil_arvalid,
      .s_axil_arready,
      .s_axil_araddr(s_axil_araddr[AxilAddressBits-1:0]),
      .s_axil_rvalid,
      .s_axil_rready,
      .s_axil_rdata,
      .s_axil_rresp,
      .clk_i(axis_aclk),
      .rst_ni(axis_rst_n),
      .from_network_valid_i(s_axis_adap_rx_250mhz_tvalid[0]),
      .from_network_ready_o(s_axis_adap_rx_250mhz_tready[0]),
      .from_network_i(from_network),
      .from_network_mark_i(
      '{size: s_axis_adap_rx_250mhz_tuser_size[15:0], source: s_axis_adap_rx_250mhz_tuser_src[15:0]}
      ),
      .to_network_valid_o(m_axis_adap_tx_250mhz_tvalid[0]),
      .to_network_ready_i(m_axis_adap_tx_250mhz_tready[0]),
      .to_network_o(to_network),
      .to_network_mark_o(to_network_mark),
      .network_is_reply_o(is_reply),
      .from_host_valid_i(s_axis_qdma_h2c_tvalid[0]),
      .from_host_ready_o(s_axis_qdma_h2c_tready[0]),
      .from_host_i(from_host),
      .from_host_mark_i('{size: s_axis_qdma_h2c_tuser_size[15:0], source: s_axis_qdma_h2c_tuser_src[15:0]}),
      .to_host_valid_o(m_axis_qdma_c2h_tvalid[0]),
      .to_host_ready_i(m_axis_qdma_c2h_tready[0]),
      .to_host_o(to_host),
      .to_host_mark_o(to_host_mark),
      .from_dma_valid_i(from_dma_valid),
      .from_dma_ready_o(from_dma_ready),
      .from_dma_i(from_dma),
      .to_dma_valid_o(to_dma_valid),
      .to_dma_ready_i(to_dma_ready),
      .to_dma_o(to_dma),
      .to_dma_bytes_o(to_dma_bytes)
  );

  assign m_axis_adap_tx_250mhz_tdata[511:0] = to_network.data;
  assign m_axis_adap_tx_250mhz_tkeep[63:0] = to_network.keep;
  assign m_axis_adap_tx_250mhz_tlast[0] = to_network.last;
  assign m_axis_adap_tx_250mhz_tuser_size[15:0] = to_network_mark.size;
  // A reply comes from the card itself; the shell expects the function of the interface as the source.
  assign m_axis_adap_tx_250mhz_tuser_src[15:0] = is_reply ? 16'd1 : to_network_mark.source;
  assign m_axis_adap_tx_250mhz_tuser_dst[15:0] = 16'd1 << PortShift;
  assign m_axis_qdma_c2h_tdata[511:0] = to_host.data;
  assign m_axis_qdma_c2h_tkeep[63:0] = to_host.keep;
  assign m_axis_qdma_c2h_tlast[0] = to_host.last;
  assign m_axis_qdma_c2h_tuser_size[15:0] = to_host_mark.size;
  assign m_axis_qdma_c2h_tuser_src[15:0] = to_host_mark.source;
  assign m_axis_qdma_c2h_tuser_dst[15:0] = 16'd1;

  // ---- DMA of commands, records and responses ----

  if (HasDma) begin : gen_dma
    localparam int unsigned Dma = NUM_CMAC_PORT;
    assign from_dma_valid = s_axis_qdma_h2c_tvalid[Dma];
    assign s_axis_qdma_h2c_tready[Dma] = from_dma_ready;
    assign from_dma = '{
            last: s_axis_qdma_h2c_tlast[Dma],
            keep: s_axis_qdma_h2c_tkeep[64*Dma+:64],
            data: s_axis_qdma_h2c_tdata[512*Dma+:512]
        };
    assign m_axis_qdma_c2h_tvalid[Dma] = to_dma_valid;
    assign to_dma_ready = m_axis_qdma_c2h_tready[Dma];
    assign m_axis_qdma_c2h_tdata[512*Dma+:512] = to_dma.data;
    assign m_axis_qdma_c2h_tkeep[64*Dma+:64] = to_dma.keep;
    assign m_axis_qdma_c2h_tlast[Dma] = to_dma.last;
    assign m_axis_qdma_c2h_tuser_size[16*Dma+:16] = to_dma_bytes;
    assign m_axis_qdma_c2h_tuser_src[16*Dma+:16] = 16'd1 << PortShift;
    assign m_axis_qdma_c2h_tuser_dst[16*Dma+:16] = 16'd1 << Dma;
  end else begin : gen_no_dma
    assign from_dma_valid = 1'b0;
    assign from_dma = '0;
    assign to_dma_ready = 1'b1;
  end

  // ---- other interfaces ----

  for (genvar i = 1; i < NUM_CMAC_PORT; i++) begin : gen_through
    assign m_axis_adap_tx_250mhz_tvalid[i] = s_axis_qdma_h2c_tvalid[i];
    assign m_axis_adap_tx_250mhz_tdata[512*i+:512] = s_axis_qdma_h2c_tdata[512*i+:512];
    assign m_axis_adap_tx_250mhz_tkeep[64*i+:64] = s_axis_qdma_h2c_tkeep[64*i+:64];
    assign m_axis_adap_tx_250mhz_tlast[i] = s_axis_qdma_h2c_tlast[i];
    assign m_axis_adap_tx_250mhz_tuser_size[16*i+:16] = s_axis_qdma_h2c_tuser_size[16*i+:16];
    assign m_axis_adap_tx_250mhz_tuser_src[16*i+:16] = s_axis_qdma_h2c_tuser_src[16*i+:16];
    assign m_axis_adap_tx_250mhz_tuser_dst[16*i+:16] = 16'd1 << (PortShift + i);
    assign s_axis_qdma_h2c_tready[i] = m_axis_adap_tx_250mhz_tready[i];

    assign m_axis_qdma_c2h_tvalid[i] = s_axis_adap_rx_250mhz_tvalid[i];
    assign m_axis_qdma_c2h_tdata[512*i+:512] = s_axis_adap_rx_250mhz_tdata[512*i+:512];
    assign m_axis_qdma_c2h_tkeep[64*i+:64] = s_axis_adap_rx_250mhz_tkeep[64*i+:64];
    assign m_axis_qdma_c2h_tlast[i] = s_axis_adap_rx_250mhz_tlast[i];
    assign m_axis_qdma_c2h_tuser_size[16*i+:16] = s_axis_adap_rx_250mhz_tuser_size[16*i+:16];
    assign m_axis_qdma_c2h_tuser_src[16*i+:16] = s_axis_adap_rx_250mhz_tuser_src[16*i+:16];
    assign m_axis_qdma_c2h_tuser_dst[16*i+:16] = 16'd1 << i;
    assign s_axis_adap_rx_250mhz_tready[i] = m_axis_qdma_c2h_tready[i];
  end

endmodule
