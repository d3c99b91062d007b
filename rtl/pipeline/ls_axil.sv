// SPDX-License-Identifier: Apache-2.0
//
// AXI4-Lite slave: turns the reads and writes of a host into requests, one after the other, for ls_registers.
//
// Interface: AXI4-Lite of 32 bits (s_axil). Write addresses and write data come independently, in any order. All ready
// and valid outputs are registers; an address and its data are taken in once, and answered by exactly one response,
// which is stable until it is taken. A write without all four byte strobes gets SLVERR and is not passed on.
// request_valid_o and request_o are stable until response_valid_i is 1 for one cycle, not before the cycle after the
// request began. The next request begins at least one cycle after a response. If a read and a write wait, they are
// passed on in turn.
// Latency: two cycles from address (and data) to request, one cycle from response to response.
// Throughput: one request at a time.

module ls_axil
  import ls_control_pkg::*;
(
    input logic clk_i,
    input logic rst_ni,

    input logic s_axil_awvalid,
    output logic s_axil_awready,
    input logic [AddressBits-1:0] s_axil_awaddr,
    input logic s_axil_wvalid,
    output logic s_axil_wready,
    input logic [31:0] s_axil_wdata,
    input logic [3:0] s_axil_wstrb,
    output logic s_axil_bvalid,
    input logic s_axil_bready,
    output logic [1:0] s_axil_bresp,
    input logic s_axil_arvalid,
    output logic s_axil_arready,
    input logic [AddressBits-1:0] s_axil_araddr,
    output logic s_axil_rvalid,
    input logic s_axil_rready,
    output logic [31:0] s_axil_rdata,
    output logic [1:0] s_axil_rresp,

    output logic request_valid_o,
    output bus_request_t request_o,
    input logic response_valid_i,
    input bus_response_t response_i
);

  localparam logic [1:0] RespOkay = 2'b00;
  localparam logic [1:0] RespSlverr = 2'b10;

  logic is_started_q;  // 0 in the first cycle after a reset, so that nothing is taken in during it
  logic aw_valid_q, w_valid_q, ar_valid_q;  // taken in, and not answered yet
  logic [AddressBits-1:0] aw_address_q, ar_address_q;
  logic [31:0] w_data_q;
  logic is_whole_q;  // all strobes of the write are 1
  logic b_valid_q, r_valid_q;
  logic [1:0] b_resp_q, r_resp_q;
  logic [31:0] r_data_q;
  logic request_valid_q, is_write_q, was_write_q;

  assign s_axil_awready = is_started_q && !aw_valid_q;
  assign s_axil_wready = is_started_q && !w_valid_q;
  assign s_axil_arready = is_started_q && !ar_valid_q;
  assign s_axil_bvalid = b_valid_q;
  assign s_axil_bresp = b_resp_q;
  assign s_axil_rvalid = r_valid_q;
  assign s_axil_rdata = r_data_q;
  assign s_axil_rresp = r_resp_q;
  assign request_valid_o = request_valid_q;
  assign request_o.is_write = is_write_q;
  assign request_o.address = is_write_q ? aw_address_q : ar_address_q;
  assign request_o.data = is_write_q ? w_data_q : '0;

  // A request begins only when the place for its response is free, so a response never waits.
  logic can_write, can_read, refuse_write, begin_write, begin_read, end_write, end_read;
  assign can_write = aw_valid_q && w_valid_q && !b_valid_q && !request_valid_q;
  assign can_read = ar_valid_q && !r_valid_q && !request_valid_q;
  assign refuse_write = can_write && !is_whole_q;
  assign begin_write = can_write && is_whole_q && !(can_read && was_write_q);
  assign begin_read = can_read && !begin_write;
  assign end_write = request_valid_q && response_valid_i && is_write_q;
  assign end_read = request_valid_q && response_valid_i && !is_write_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      is_started_q <= 1'b0;
      aw_valid_q <= 1'b0;
      w_valid_q <= 1'b0;
      ar_valid_q <= 1'b0;
      b_valid_q <= 1'b0;
      r_valid_q <= 1'b0;
      request_valid_q <= 1'b0;
      is_write_q <= 1'b0;
      was_write_q <= 1'b0;
    end else begin
      is_started_q <= 1'b1;
      if (end_write || refuse_write) begin
        aw_valid_q <= 1'b0;
        w_valid_q  <= 1'b0;
      end else begin
        if (s_axil_awvalid && s_axil_awready) aw_valid_q <= 1'b1;
        if (s_axil_wvalid && s_axil_wready) w_valid_q <= 1'b1;
      end
      if (end_read) ar_valid_q <= 1'b0;
      else if (s_axil_arvalid && s_axil_arready) ar_valid_q <= 1'b1;
      if (end_write || refuse_write) b_valid_q <= 1'b1;
      else if (s_axil_bready) b_valid_q <= 1'b0;
      if (end_read) r_valid_q <= 1'b1;
      else if (s_axil_rready) r_valid_q <= 1'b0;
      if (begin_write || begin_read) begin
        request_valid_q <= 1'b1;
        is_write_q <= begin_write;
        was_write_q <= begin_write;
      end else if (response_valid_i) begin
        request_valid_q <= 1'b0;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (!aw_valid_q) aw_address_q <= s_axil_awaddr;
    if (!ar_valid_q) ar_address_q <= s_axil_araddr;
    if (!w_valid_q) begin
      w_data_q   <= s_axil_wdata;
      is_whole_q <= &s_axil_wstrb;
    end
    if (end_write || refuse_write) b_resp_q <= refuse_write || response_i.is_error ? RespSlverr : RespOkay;
    if (end_read) begin
      r_resp_q <= response_i.is_error ? RespSlverr : RespOkay;
      r_data_q <= response_i.is_error ? '0 : response_i.data;
    end
  end

`ifdef FORMAL
  // Proof of the rules of AXI4-Lite, for any master that keeps an offered transfer stable, and for a responder that
  // answers each request within ResponseMax cycles.
  localparam int unsigned ResponseMax = 3;
  logic is_first_q = 1'b1;
  logic was_reset_q;
  logic aw_waits_q, w_waits_q, ar_waits_q, b_waits_q, r_waits_q, request_waits_q, response_was_q;
  logic [AddressBits-1:0] aw_waiting_q, ar_waiting_q;
  logic [35:0] w_waiting_q;
  logic [1:0] b_waiting_q;
  logic [33:0] r_waiting_q;
  bus_request_t request_waiting_q;
  // Transfers taken in minus responses taken out: at most one is in the slave, and at most one response waits.
  logic [1:0] aw_open_q, w_open_q, ar_open_q;
  logic [2:0] request_age_q;
  logic [4:0] write_age_q, read_age_q;
  // The last address and data that were taken in, by a copy of their own.
  logic [AddressBits-1:0] aw_copy_q, ar_copy_q;
  logic [35:0] w_copy_q;
  logic response_copy_q;

  always_ff @(posedge clk_i) begin
    is_first_q <= 1'b0;
    was_reset_q <= !rst_ni;
    aw_waits_q <= rst_ni && s_axil_awvalid && !s_axil_awready;
    w_waits_q <= rst_ni && s_axil_wvalid && !s_axil_wready;
    ar_waits_q <= rst_ni && s_axil_arvalid && !s_axil_arready;
    b_waits_q <= rst_ni && s_axil_bvalid && !s_axil_bready;
    r_waits_q <= rst_ni && s_axil_rvalid && !s_axil_rready;
    request_waits_q <= rst_ni && request_valid_o && !response_valid_i;
    response_was_q <= rst_ni && request_valid_o && response_valid_i;
    response_copy_q <= response_i.is_error;
    aw_waiting_q <= s_axil_awaddr;
    w_waiting_q <= {s_axil_wstrb, s_axil_wdata};
    ar_waiting_q <= s_axil_araddr;
    b_waiting_q <= s_axil_bresp;
    r_waiting_q <= {s_axil_rresp, s_axil_rdata};
    request_waiting_q <= request_o;
    if (s_axil_awvalid && s_axil_awready) aw_copy_q <= s_axil_awaddr;
    if (s_axil_wvalid && s_axil_wready) w_copy_q <= {s_axil_wstrb, s_axil_wdata};
    if (s_axil_arvalid && s_axil_arready) ar_copy_q <= s_axil_araddr;
    if (!rst_ni) begin
      aw_open_q <= '0;
      w_open_q <= '0;
      ar_open_q <= '0;
      request_age_q <= '0;
      write_age_q <= '0;
      read_age_q <= '0;
    end else begin
      aw_open_q <= aw_open_q + 2'(s_axil_awvalid && s_axil_awready) - 2'(s_axil_bvalid && s_axil_bready);
      w_open_q <= w_open_q + 2'(s_axil_wvalid && s_axil_wready) - 2'(s_axil_bvalid && s_axil_bready);
      ar_open_q <= ar_open_q + 2'(s_axil_arvalid && s_axil_arready) - 2'(s_axil_rvalid && s_axil_rready);
      request_age_q <= request_valid_o && !response_valid_i ? request_age_q + 1'b1 : '0;
      // Cycles in which a whole write, or a read, waits though the place for its response is free.
      write_age_q <= aw_valid_q && w_valid_q && !b_valid_q && !end_write && !refuse_write ? write_age_q + 1'b1 : '0;
      read_age_q <= ar_valid_q && !r_valid_q && !end_read ? read_age_q + 1'b1 : '0;
    end
  end

  always_comb begin
    assume (!is_first_q || !rst_ni);
    // The master.
    if (!is_first_q && !was_reset_q && rst_ni) begin
      if (aw_waits_q) assume (s_axil_awvalid && s_axil_awaddr == aw_waiting_q);
      if (w_waits_q) assume (s_axil_wvalid && {s_axil_wstrb, s_axil_wdata} == w_waiting_q);
      if (ar_waits_q) assume (s_axil_arvalid && s_axil_araddr == ar_waiting_q);
    end
    // The responder.
    if (!request_valid_o) assume (!response_valid_i);
    if (request_age_q == 3'(ResponseMax)) assume (response_valid_i);
    if (!is_first_q && rst_ni) begin
      if (was_reset_q) begin
        assert (!s_axil_bvalid && !s_axil_rvalid && !request_valid_o);
        assert (!s_axil_awready && !s_axil_wready && !s_axil_arready);
      end
      // What is offered stays until it is taken.
      if (b_waits_q) assert (s_axil_bvalid && s_axil_bresp == b_waiting_q);
      if (r_waits_q) assert (s_axil_rvalid && {s_axil_rresp, s_axil_rdata} == r_waiting_q);
      if (request_waits_q) assert (request_valid_o && request_o == request_waiting_q);
      if (response_was_q) assert (!request_valid_o);
      // A response needs a request: address and data for a write.
      assert (aw_open_q == 2'(aw_valid_q) + 2'(b_valid_q));
      assert (w_open_q == 2'(w_valid_q) + 2'(b_valid_q));
      assert (ar_open_q == 2'(ar_valid_q) + 2'(r_valid_q));
      if (s_axil_bvalid) assert (aw_open_q != '0 && w_open_q != '0);
      if (s_axil_rvalid) assert (ar_open_q != '0);
      // Only OKAY and SLVERR, and an error if and only if the responder said so or the strobes are not whole.
      if (s_axil_bvalid) assert (!s_axil_bresp[0]);
      if (s_axil_rvalid) assert (!s_axil_rresp[0]);
      if (response_was_q) begin
        if (request_waiting_q.is_write)
          assert (s_axil_bvalid && s_axil_bresp[1] == response_copy_q);
          else assert (s_axil_rvalid && s_axil_rresp[1] == response_copy_q);
      end
      // A request has the address and the data that were taken in last, and a write has all its strobes.
      if (aw_valid_q) assert (aw_address_q == aw_copy_q);
      if (ar_valid_q) assert (ar_address_q == ar_copy_q);
      if (w_valid_q) assert (w_data_q == w_copy_q[31:0] && is_whole_q == &w_copy_q[35:32]);
      if (request_valid_o && request_o.is_write) begin
        assert (aw_valid_q && w_valid_q && is_whole_q && !b_valid_q);
        assert (request_o.address == aw_copy_q && request_o.data == w_copy_q[31:0]);
      end
      if (request_valid_o && !request_o.is_write) begin
        assert (ar_valid_q && !r_valid_q && request_o.address == ar_copy_q);
      end
      // Liveness: a read and a write each wait for one request of the other kind at most.
      assert (request_age_q <= 3'(ResponseMax));
      assert (write_age_q <= 5'(2 * ResponseMax + 4));
      assert (read_age_q <= 5'(2 * ResponseMax + 4));
    end
  end
`endif

endmodule
