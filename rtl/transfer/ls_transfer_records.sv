// SPDX-License-Identifier: Apache-2.0
//
// Stream of records to the host's journal (transfer_record in spec/rtl.toml): joins each record of the store with the
// fields that the store does not know, and sends it in two beats.
//
// Interface: extra_push_i gives the extra fields of the next record; it comes with the record or later, at most Depth
// of them wait. m_axis is AXI-Stream; the store keeps a record until its last beat has left, so that its place counts
// as taken until then.
// Throughput: one record every two cycles.

module ls_transfer_records
  import ls_pkg::*;
  import ls_pipeline_pkg::*;
  import ls_transfer_pkg::*;
  import ls_transfer_packet_pkg::*;
#(
    parameter int unsigned Depth = 16
) (
    input logic clk_i,
    input logic rst_ni,

    input logic   extra_push_i,
    input extra_t extra_i,

    input  logic    record_valid_i,
    output logic    record_ready_o,
    input  record_t record_i,

    output logic m_axis_tvalid,
    input logic m_axis_tready,
    output logic [BeatBits-1:0] m_axis_tdata,
    output logic m_axis_tlast
);

  // Slot of requests without a session.
  localparam logic [31:0] NoSession = '1;

  extra_t extra;
  logic extra_valid, extra_ready, extras_ready;
  logic [$clog2(Depth):0] unused_count;
  logic is_second_q;
  transfer_record_beats_t joined;

  ls_fifo #(
      .T(extra_t),
      .Depth(Depth)
  ) u_extras (
      .clk_i,
      .rst_ni,
      .valid_i(extra_push_i),
      .ready_o(extras_ready),
      .data_i (extra_i),
      .valid_o(extra_valid),
      .ready_i(extra_ready),
      .data_o (extra),
      .count_o(unused_count)
  );

  always_comb begin
    joined = '0;
    joined.source = record_i.source;
    joined.destination = record_i.destination;
    joined.amount = record_i.amount;
    joined.source_version = record_i.source_version;
    joined.destination_version = record_i.destination_version;
    joined.source_balance = record_i.source_balance;
    joined.slot = NoSession;
    joined.command = {16'(record_i.code), 16'(record_i.command)};
    joined.place = {16'd1, 16'd0};
    joined.session_sequence = 64'(record_i.number);
    joined.time_ns = extra.time_ns;
  end

  assign m_axis_tvalid = record_valid_i && extra_valid;
  assign m_axis_tdata = is_second_q ? joined[2*BeatBits-1:BeatBits] : joined[BeatBits-1:0];
  assign m_axis_tlast = is_second_q;
  assign extra_ready = record_valid_i && m_axis_tready && is_second_q;
  assign record_ready_o = extra_valid && m_axis_tready && is_second_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) is_second_q <= 1'b0;
    else if (m_axis_tvalid && m_axis_tready) is_second_q <= !is_second_q;
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk_i)
    if (rst_ni) assert (!extra_push_i || extras_ready) else $error("the fields of a record were lost");
`endif

endmodule
