// SPDX-License-Identifier: Apache-2.0
//
// Stream of records to the host's journal (transfer_record in spec/rtl.toml): joins each record of the store with the
// fields that the store does not know, and sends it in two beats.
//
// Interface: extra_push_i gives the extra fields of the next record; it comes with the record or later, at most Depth
// of them wait. m_axis is AXI-Stream; record_left_o tells the store when the last beat of a record leaves: its place
// counts as taken until then.
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
    output logic    record_left_o,  // the last beat of a record leaves

    output logic m_axis_tvalid,
    input logic m_axis_tready,
    output logic [BeatBits-1:0] m_axis_tdata,
    output logic m_axis_tlast
);

  extra_t extra;
  logic extra_valid, extra_ready, extras_ready;
  logic [$clog2(Depth):0] unused_count;
  logic is_second_q;
  transfer_record_beats_t next_joined, joined;

  ls_fifo #(
      .T(extra_t),
      .Depth(Depth),
      .WritesIdle(1'b1)
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
    next_joined = '0;
    next_joined.source = record_i.source;
    next_joined.destination = record_i.destination;
    next_joined.amount = record_i.amount;
    next_joined.source_version = record_i.source_version;
    next_joined.destination_version = record_i.destination_version;
    next_joined.source_balance = record_i.source_balance;
    next_joined.slot = extra.slot;
    next_joined.command = {16'(record_i.code), 16'(extra.command)};
    next_joined.place = {16'd1, 16'd0};
    next_joined.nonce = extra.nonce;
    next_joined.session_sequence = extra.session_sequence;
    next_joined.sum = extra.sum;
    next_joined.timestamp = extra.timestamp;
    next_joined.uuid = extra.uuid;
    next_joined.time_ns = extra.time_ns;
  end

  typedef struct packed {
    logic last;
    logic [BeatBits-1:0] data;
  } out_t;

  logic next_joined_valid, next_joined_ready, next_valid, next_ready;
  out_t next, out;

  // The reads of both queues are asynchronous, and their memories are far apart.
  ls_slice #(
      .T(transfer_record_beats_t)
  ) u_joined (
      .clk_i,
      .rst_ni,
      .valid_i(next_joined_valid),
      .ready_o(next_joined_ready),
      .data_i (next_joined),
      .valid_o(next_valid),
      .ready_i(next_ready && is_second_q),
      .data_o (joined)
  );

  assign next_joined_valid = record_valid_i && extra_valid;
  assign next = '{last: is_second_q, data: is_second_q ? joined[2*BeatBits-1:BeatBits] : joined[BeatBits-1:0]};
  assign extra_ready = record_valid_i && next_joined_ready;
  assign record_ready_o = extra_valid && next_joined_ready;
  assign record_left_o = m_axis_tvalid && m_axis_tready && out.last;
  assign m_axis_tdata = out.data;
  assign m_axis_tlast = out.last;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) is_second_q <= 1'b0;
    else if (next_valid && next_ready) is_second_q <= !is_second_q;
  end

  ls_skid #(
      .T(out_t)
  ) u_out (
      .clk_i,
      .rst_ni,
      .valid_i(next_valid),
      .ready_o(next_ready),
      .data_i (next),
      .valid_o(m_axis_tvalid),
      .ready_i(m_axis_tready),
      .data_o (out)
  );

`ifndef SYNTHESIS
  always_ff @(posedge clk_i)
    if (rst_ni) assert (!extra_push_i || extras_ready) else $error("the fields of a record were lost");
`endif

endmodule
