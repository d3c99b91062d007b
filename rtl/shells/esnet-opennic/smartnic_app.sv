// SPDX-License-Identifier: Apache-2.0
//
// Application block `smartnic_app` of the ESnet SmartNIC (esnet/esnet-smartnic-hw): answers requests on the first
// processor port, and connects the other ones through.
//
// Interface: name, parameters and ports of the shell's black box, src/smartnic_app/blackbox/rtl/src/smartnic_app.sv at
// commit 2643d770. Streams are synchronous to core_clk, with the reset core_srst; both AXI4-Lite ports are synchronous
// to axil_aclk. The window of Lineside is at the port of the application (app_axil); the port of the P4 processors
// (axil) answers every request with SLVERR.
// Frames for the host go to the physical function of their port (axis_c2h, host interface 0). Frames of that function
// and replies go to axis_app_egr; a reply goes out of the port that its request came in by (tdest is the tid of the
// request). Host interface 1 of the first processor port (the first virtual function of the first physical function) is
// the DMA of the commands, records and responses (ls_port). What other virtual functions send is discarded.

module smartnic_app
  import ls_pkg::*;
  import ls_pipeline_pkg::*;
  import ls_control_pkg::*;
#(
    parameter int HOST_NUM_IFS = 3,
    parameter int NUM_PORTS = 2,
    parameter int NUM_P4_PROC = 2,
    parameter bit Transfer = ls_shell_pkg::IsTransfer,
    parameter int unsigned LineBits = 16,
    parameter int unsigned BlockBits = 10,
    parameter LineStyle = "ultra",
    parameter BlockStyle = "block",
    parameter int unsigned BucketBits = 14,
    parameter int unsigned SessionBits = 10,
    parameter AccountStyle = "ultra"
) (
    input logic core_clk,
    input logic core_srst,
    input logic axil_aclk,
    input logic [63:0] timestamp,
    input logic axil_aresetn,
    input logic axil_awvalid,
    output logic axil_awready,
    input logic [31:0] axil_awaddr,
    input logic [2:0] axil_awprot,
    input logic axil_wvalid,
    output logic axil_wready,
    input logic [31:0] axil_wdata,
    input logic [3:0] axil_wstrb,
    output logic axil_bvalid,
    input logic axil_bready,
    output logic [1:0] axil_bresp,
    input logic axil_arvalid,
    output logic axil_arready,
    input logic [31:0] axil_araddr,
    input logic [2:0] axil_arprot,
    output logic axil_rvalid,
    input logic axil_rready,
    output logic [31:0] axil_rdata,
    output logic [1:0] axil_rresp,
    input logic app_axil_aresetn,
    input logic app_axil_awvalid,
    output logic app_axil_awready,
    input logic [31:0] app_axil_awaddr,
    input logic [2:0] app_axil_awprot,
    input logic app_axil_wvalid,
    output logic app_axil_wready,
    input logic [31:0] app_axil_wdata,
    input logic [3:0] app_axil_wstrb,
    output logic app_axil_bvalid,
    input logic app_axil_bready,
    output logic [1:0] app_axil_bresp,
    input logic app_axil_arvalid,
    output logic app_axil_arready,
    input logic [31:0] app_axil_araddr,
    input logic [2:0] app_axil_arprot,
    output logic app_axil_rvalid,
    input logic app_axil_rready,
    output logic [31:0] app_axil_rdata,
    output logic [1:0] app_axil_rresp,
    input logic [NUM_PORTS-1:0] axis_app_igr_tvalid,
    output logic [NUM_PORTS-1:0] axis_app_igr_tready,
    input logic [512*NUM_PORTS-1:0] axis_app_igr_tdata,
    input logic [64*NUM_PORTS-1:0] axis_app_igr_tkeep,
    input logic [NUM_PORTS-1:0] axis_app_igr_tlast,
    input logic [4*NUM_PORTS-1:0] axis_app_igr_tid,
    input logic [4*NUM_PORTS-1:0] axis_app_igr_tdest,
    output logic [NUM_PORTS-1:0] axis_app_egr_tvalid,
    input logic [NUM_PORTS-1:0] axis_app_egr_tready,
    output logic [512*NUM_PORTS-1:0] axis_app_egr_tdata,
    output logic [64*NUM_PORTS-1:0] axis_app_egr_tkeep,
    output logic [NUM_PORTS-1:0] axis_app_egr_tlast,
    output logic [4*NUM_PORTS-1:0] axis_app_egr_tid,
    output logic [4*NUM_PORTS-1:0] axis_app_egr_tdest,
    output logic [NUM_PORTS-1:0] axis_app_egr_tuser_rss_enable,
    output logic [12*NUM_PORTS-1:0] axis_app_egr_tuser_rss_entropy,
    input logic [HOST_NUM_IFS*NUM_PORTS-1:0] axis_h2c_tvalid,
    output logic [HOST_NUM_IFS*NUM_PORTS-1:0] axis_h2c_tready,
    input logic [512*HOST_NUM_IFS*NUM_PORTS-1:0] axis_h2c_tdata,
    input logic [64*HOST_NUM_IFS*NUM_PORTS-1:0] axis_h2c_tkeep,
    input logic [HOST_NUM_IFS*NUM_PORTS-1:0] axis_h2c_tlast,
    input logic [4*HOST_NUM_IFS*NUM_PORTS-1:0] axis_h2c_tid,
    input logic [4*HOST_NUM_IFS*NUM_PORTS-1:0] axis_h2c_tdest,
    output logic [HOST_NUM_IFS*NUM_PORTS-1:0] axis_c2h_tvalid,
    input logic [HOST_NUM_IFS*NUM_PORTS-1:0] axis_c2h_tready,
    output logic [512*HOST_NUM_IFS*NUM_PORTS-1:0] axis_c2h_tdata,
    output logic [64*HOST_NUM_IFS*NUM_PORTS-1:0] axis_c2h_tkeep,
    output logic [HOST_NUM_IFS*NUM_PORTS-1:0] axis_c2h_tlast,
    output logic [4*HOST_NUM_IFS*NUM_PORTS-1:0] axis_c2h_tid,
    output logic [4*HOST_NUM_IFS*NUM_PORTS-1:0] axis_c2h_tdest,
    output logic [HOST_NUM_IFS*NUM_PORTS-1:0] axis_c2h_tuser_rss_enable,
    output logic [12*HOST_NUM_IFS*NUM_PORTS-1:0] axis_c2h_tuser_rss_entropy,
    input logic [3:0] egr_flow_ctl
);

  // Value of the shell's port_t for the first physical function; the next one follows it.
  localparam logic [3:0] PortPf0 = 4'd2;
  // The same for the first virtual function of the first physical function.
  localparam logic [3:0] PortPf0Vf0 = 4'd4;
  localparam bit HasDma = HOST_NUM_IFS > 1;

  typedef struct packed {
    logic [3:0] id;
    logic [3:0] destination;
  } mark_t;

  logic core_rst_n;
  assign core_rst_n = !core_srst;

  // ---- AXI4-Lite port of the P4 processors ----

  logic p4_valid_q, p4_request_valid;
  bus_request_t unused_p4_request;

  ls_axil u_p4_axil (
      .clk_i(axil_aclk),
      .rst_ni(axil_aresetn),
      .s_axil_awvalid(axil_awvalid),
      .s_axil_awready(axil_awready),
      .s_axil_awaddr(axil_awaddr[AxilAddressBits-1:0]),
      .s_axil_wvalid(axil_wvalid),
      .s_axil_wready(axil_wready),
      .s_axil_wdata(axil_wdata),
      .s_axil_wstrb(axil_wstrb),
      .s_axil_bvalid(axil_bvalid),
      .s_axil_bready(axil_bready),
      .s_axil_bresp(axil_bresp),
      .s_axil_arvalid(axil_arvalid),
      .s_axil_arready(axil_arready),
      .s_axil_araddr(axil_araddr[AxilAddressBits-1:0]),
      .s_axil_rvalid(axil_rvalid),
      .s_axil_rready(axil_rready),
      .s_axil_rdata(axil_rdata),
      .s_axil_rresp(axil_rresp),
      .request_valid_o(p4_request_valid),
      .request_o(unused_p4_request),
      .response_valid_i(p4_valid_q),
      .response_i('{is_error: 1'b1, data: '0})
  );

  always_ff @(posedge axil_aclk) p4_valid_q <= axil_aresetn && p4_request_valid && !p4_valid_q;

  // ---- first processor port ----

  beat_t from_network, to_network, from_host, to_host, from_dma, to_dma;
  logic from_dma_valid, from_dma_ready, to_dma_valid, to_dma_ready;
  logic [15:0] unused_to_dma_bytes;
  mark_t to_network_mark, to_host_mark;
  logic is_reply;
  assign from_network = '{
          last: axis_app_igr_tlast[0],
          keep: axis_app_igr_tkeep[63:0],
          data: axis_app_igr_tdata[511:0]
      };
  assign from_host = '{last: axis_h2c_tlast[0], keep: axis_h2c_tkeep[63:0], data: axis_h2c_tdata[511:0]};

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
      .axil_rst_ni(app_axil_aresetn),
      .s_axil_awvalid(app_axil_awvalid),
      .s_axil_awready(app_axil_awready),
      .s_axil_awaddr(app_axil_awaddr[AxilAddressBits-1:0]),
      .s_axil_wvalid(app_axil_wvalid),
      .s_axil_wready(app_axil_wready),
      .s_axil_wdata(app_axil_wdata),
      .s_axil_wstrb(app_axil_wstrb),
      .s_axil_bvalid(app_axil_bvalid),
      .s_axil_bready(app_axil_bready),
      .s_axil_bresp(app_axil_bresp),
      .s_axil_arvalid(app_axil_arvalid),
      .s_axil_arready(app_axil_arready),
      .s_axil_araddr(app_axil_araddr[AxilAddressBits-1:0]),
      .s_axil_rvalid(app_axil_rvalid),
      .s_axil_rready(app_axil_rready),
      .s_axil_rdata(app_axil_rdata),
      .s_axil_rresp(app_axil_rresp),
      .clk_i(core_clk),
      .rst_ni(core_rst_n),
      .from_network_valid_i(axis_app_igr_tvalid[0]),
      .from_network_ready_o(axis_app_igr_tready[0]),
      .from_network_i(from_network),
      .from_network_mark_i('{id: axis_app_igr_tid[3:0], destination: axis_app_igr_tdest[3:0]}),
      .to_network_valid_o(axis_app_egr_tvalid[0]),
      .to_network_ready_i(axis_app_egr_tready[0]),
      .to_network_o(to_network),
      .to_network_mark_o(to_network_mark),
      .network_is_reply_o(is_reply),
      .from_host_valid_i(axis_h2c_tvalid[0]),
      .from_host_ready_o(axis_h2c_tready[0]),
      .from_host_i(from_host),
      .from_host_mark_i('{id: axis_h2c_tid[3:0], destination: axis_h2c_tdest[3:0]}),
      .to_host_valid_o(axis_c2h_tvalid[0]),
      .to_host_ready_i(axis_c2h_tready[0]),
      .to_host_o(to_host),
      .to_host_mark_o(to_host_mark),
      .from_dma_valid_i(from_dma_valid),
      .from_dma_ready_o(from_dma_ready),
      .from_dma_i(from_dma),
      .to_dma_valid_o(to_dma_valid),
      .to_dma_ready_i(to_dma_ready),
      .to_dma_o(to_dma),
      .to_dma_bytes_o(unused_to_dma_bytes)
  );

  assign axis_app_egr_tdata[511:0] = to_network.data;
  assign axis_app_egr_tkeep[63:0] = to_network.keep;
  assign axis_app_egr_tlast[0] = to_network.last;
  assign axis_app_egr_tid[3:0] = to_network_mark.id;
  assign axis_app_egr_tdest[3:0] = is_reply ? to_network_mark.id : to_network_mark.destination;
  assign axis_c2h_tdata[511:0] = to_host.data;
  assign axis_c2h_tkeep[63:0] = to_host.keep;
  assign axis_c2h_tlast[0] = to_host.last;
  assign axis_c2h_tid[3:0] = to_host_mark.id;
  assign axis_c2h_tdest[3:0] = PortPf0;

  // ---- other processor ports ----

  for (genvar i = 1; i < NUM_PORTS; i++) begin : gen_through
    assign axis_c2h_tvalid[i] = axis_app_igr_tvalid[i];
    assign axis_app_igr_tready[i] = axis_c2h_tready[i];
    assign axis_c2h_tdata[512*i+:512] = axis_app_igr_tdata[512*i+:512];
    assign axis_c2h_tkeep[64*i+:64] = axis_app_igr_tkeep[64*i+:64];
    assign axis_c2h_tlast[i] = axis_app_igr_tlast[i];
    assign axis_c2h_tid[4*i+:4] = axis_app_igr_tid[4*i+:4];
    assign axis_c2h_tdest[4*i+:4] = PortPf0 + 4'(i);

    assign axis_app_egr_tvalid[i] = axis_h2c_tvalid[i];
    assign axis_h2c_tready[i] = axis_app_egr_tready[i];
    assign axis_app_egr_tdata[512*i+:512] = axis_h2c_tdata[512*i+:512];
    assign axis_app_egr_tkeep[64*i+:64] = axis_h2c_tkeep[64*i+:64];
    assign axis_app_egr_tlast[i] = axis_h2c_tlast[i];
    assign axis_app_egr_tid[4*i+:4] = axis_h2c_tid[4*i+:4];
    assign axis_app_egr_tdest[4*i+:4] = axis_h2c_tdest[4*i+:4];
  end

  // ---- DMA of commands, records and responses ----

  if (HasDma) begin : gen_dma
    localparam int unsigned Dma = NUM_PORTS;  // host interface 1 of the first processor port
    assign from_dma_valid = axis_h2c_tvalid[Dma];
    assign axis_h2c_tready[Dma] = from_dma_ready;
    assign from_dma = '{
            last: axis_h2c_tlast[Dma],
            keep: axis_h2c_tkeep[64*Dma+:64],
            data: axis_h2c_tdata[512*Dma+:512]
        };
    assign axis_c2h_tvalid[Dma] = to_dma_valid;
    assign to_dma_ready = axis_c2h_tready[Dma];
    assign axis_c2h_tdata[512*Dma+:512] = to_dma.data;
    assign axis_c2h_tkeep[64*Dma+:64] = to_dma.keep;
    assign axis_c2h_tlast[Dma] = to_dma.last;
    assign axis_c2h_tid[4*Dma+:4] = PortPf0Vf0;
    assign axis_c2h_tdest[4*Dma+:4] = PortPf0Vf0;
  end else begin : gen_no_dma
    assign from_dma_valid = 1'b0;
    assign from_dma = '0;
    assign to_dma_ready = 1'b1;
  end

  // ---- other virtual functions ----

  for (genvar i = NUM_PORTS + 1; i < HOST_NUM_IFS * NUM_PORTS; i++) begin : gen_unused
    assign axis_h2c_tready[i] = 1'b1;
    assign axis_c2h_tvalid[i] = 1'b0;
    assign axis_c2h_tdata[512*i+:512] = '0;
    assign axis_c2h_tkeep[64*i+:64] = '0;
    assign axis_c2h_tlast[i] = 1'b0;
    assign axis_c2h_tid[4*i+:4] = '0;
    assign axis_c2h_tdest[4*i+:4] = '0;
  end

  assign axis_app_egr_tuser_rss_enable = '0;
  assign axis_app_egr_tuser_rss_entropy = '0;
  assign axis_c2h_tuser_rss_enable = '0;
  assign axis_c2h_tuser_rss_entropy = '0;

  if (NUM_P4_PROC < 0) begin : gen_unused_parameter
    $error("NUM_P4_PROC is the shell's, and is not used");
  end

endmodule
