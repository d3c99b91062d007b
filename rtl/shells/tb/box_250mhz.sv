// SPDX-License-Identifier: Apache-2.0
//
// Stand-in for the 250 MHz box of OpenNIC, for a check by elaboration: its parameters and ports are those of
// src/box_250mhz/box_250mhz.sv in Xilinx/open-nic-shell at commit 0a8a0497 (boards without ref_clk_100mhz), and its
// body has the two files that the box includes. It has no function.

module box_250mhz #(
    parameter int MIN_PKT_LEN   = 64,
    parameter int MAX_PKT_LEN   = 1518,
    parameter int USE_PHYS_FUNC = 1,
    parameter int NUM_PHYS_FUNC = 1,
    parameter int NUM_CMAC_PORT = 1
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
    input logic [15:0] mod_rstn,
    output logic [15:0] mod_rst_done,
    input logic box_rstn,
    output logic box_rst_done,
    input logic axil_aclk,
    input logic axis_aclk
);

  // Values that the box takes care of, and that a plug-in does not use.
  assign box_rst_done = box_rstn;
  if (MIN_PKT_LEN > MAX_PKT_LEN || USE_PHYS_FUNC == 0) begin : gen_parameters_check
    $error("lineside_250mhz needs the PCIe functions of the shell");
  end

  `include "box_250mhz_address_map_inst.vh"
  `include "user_plugin_250mhz_inst.vh"

endmodule
