// SPDX-License-Identifier: Apache-2.0
//
// Proof of ls_transfer_records, at full width with a queue of 4 extra fields. All bits are free; each of the four tasks
// compares two bits of each byte.
// - Each record that the module takes in leaves as two beats of 64 bytes, in order, together with the extra fields that
//   were pushed for it, and each field is at the offset that spec/rtl.toml gives it. No record is lost, doubled or
//   reordered, and no record leaves with the extra fields of another one. The proof follows one record, which mark_i
//   chooses freely by its extra fields.
// - tlast is 1 exactly on the second beat. record_left_o is 1 exactly when a second beat leaves.
// - tvalid stays 1 until tready, and tdata and tlast do not change until then.
// - The module is never without a beat at the output for more than two cycles while it has work: a record inside, or
//   one at the input whose extra fields are there. The sink may be ready or not in these cycles. While the module has
//   work, a record leaves at the latest in the fourth cycle in which the sink is ready.
// - After the sink was ready for two cycles, and while it is ready, the module takes in a record at least every second
//   cycle.
//
// Assumed: extra fields are pushed only while fewer than Depth of them wait for their record. The extra fields of a
// record may come at any time before it, with it or after it. The proof does not need that a record at the input stays
// until it is taken in.

module ls_transfer_records_proof
  import ls_pkg::*;
  import ls_pipeline_pkg::*;
  import ls_transfer_pkg::*;
  import ls_transfer_packet_pkg::*;
#(
    parameter int unsigned Depth = 4,
    parameter logic [7:0] Bits = '1  // bits of each byte that the proof compares
) (
    input logic clk_i,
    input logic rst_ni,

    input logic mark_i,
    input logic extra_push_i,
    input extra_t extra_i,
    input logic record_valid_i,
    input record_t record_i,
    input logic tready_i
);

  logic record_ready, record_left, tvalid, tlast;
  logic [511:0] tdata;

  ls_transfer_records #(
      .Depth(Depth)
  ) u_dut (
      .clk_i,
      .rst_ni,
      .extra_push_i,
      .extra_i,
      .record_valid_i,
      .record_ready_o(record_ready),
      .record_i,
      .record_left_o (record_left),
      .m_axis_tvalid (tvalid),
      .m_axis_tready (tready_i),
      .m_axis_tdata  (tdata),
      .m_axis_tlast  (tlast)
  );

  typedef logic [3:0] count_t;

  localparam logic [511:0] BeatMask = {64{Bits}};
  localparam logic [$bits(extra_t)-1:0] ExtraMask = {$bits(extra_t) / 8{Bits}};

  // Byte n of the stream is in bits 8n+7 to 8n. All numbers are little-endian.
  function automatic logic [1023:0] layout(input record_t record, input extra_t extra);
    logic [1023:0] bytes;
    bytes[8*0+:128] = record.source;
    bytes[8*16+:128] = record.destination;
    bytes[8*32+:64] = record.amount;
    bytes[8*40+:64] = record.source_version;
    bytes[8*48+:64] = record.destination_version;
    bytes[8*56+:64] = record.source_balance;
    bytes[8*64+:32] = extra.slot;
    bytes[8*68+:16] = 16'(extra.command);
    bytes[8*70+:16] = 16'(record.code);
    bytes[8*72+:16] = 16'd0;  // the first operation
    bytes[8*74+:16] = 16'd1;  // of one
    bytes[8*76+:32] = extra.nonce;
    bytes[8*80+:64] = extra.session_sequence;
    bytes[8*88+:64] = extra.sum;
    bytes[8*96+:64] = extra.timestamp;
    bytes[8*104+:128] = extra.uuid;
    bytes[8*120+:64] = extra.time_ns;
    return bytes;
  endfunction

  logic is_first_q = 1'b1;
  logic take, leave, left;
  count_t extras_q;  // extra fields whose record was not taken in
  count_t inside_q;  // records that were taken in and did not leave
  logic is_second_q;  // the next beat is the second one of its record

  assign take  = record_valid_i && record_ready;
  assign leave = tvalid && tready_i;
  assign left  = leave && is_second_q;

  // ---- the marked record ----

  logic is_waiting_q;  // its extra fields wait for it
  logic is_inside_q;
  count_t ahead_q;  // extra fields, or then records, ahead of it
  extra_t extra_q;
  logic [1023:0] expected_q;

  // ---- waiting for the module ----

  logic has_work, has_record;
  logic [1:0] gap_q;  // cycles with work and without a beat at the output
  logic [2:0] waited_q;  // cycles with work and a ready sink since a record left
  logic [1:0] was_ready_q;  // the sink, in the last two cycles
  logic was_refused_q;  // the record at the input, in the last cycle
  assign has_record = record_valid_i && extras_q != '0;
  assign has_work   = inside_q != '0 || has_record;

  logic was_waiting_q, was_last_q;
  logic [511:0] was_data_q;

  always_ff @(posedge clk_i) begin
    is_first_q <= 1'b0;
    was_waiting_q <= rst_ni && tvalid && !tready_i;
    was_last_q <= tlast;
    was_data_q <= tdata & BeatMask;
    was_ready_q <= {was_ready_q[0] && rst_ni, tready_i && rst_ni};
    was_refused_q <= rst_ni && has_record && !take;
    if (!rst_ni) begin
      extras_q <= '0;
      inside_q <= '0;
      is_second_q <= 1'b0;
      is_waiting_q <= 1'b0;
      is_inside_q <= 1'b0;
      gap_q <= '0;
      waited_q <= '0;
    end else begin
      extras_q <= extras_q + count_t'(extra_push_i) - count_t'(take);
      inside_q <= inside_q + count_t'(take) - count_t'(left);
      if (leave) is_second_q <= !is_second_q;

      if (is_inside_q) begin
        if (left && ahead_q == '0) is_inside_q <= 1'b0;
        else if (left) ahead_q <= ahead_q - 1'b1;
      end else if (is_waiting_q) begin
        if (take && ahead_q == '0) begin
          is_waiting_q <= 1'b0;
          is_inside_q <= 1'b1;
          ahead_q <= inside_q - count_t'(left);
          expected_q <= layout(record_i, extra_q) & {2{BeatMask}};
        end else if (take) ahead_q <= ahead_q - 1'b1;
      end else if (extra_push_i && mark_i) begin
        is_waiting_q <= 1'b1;
        ahead_q <= extras_q - count_t'(take);
        extra_q <= extra_i & ExtraMask;
      end

      gap_q <= !has_work || tvalid ? 2'd0 : gap_q + 2'd1;
      if (!has_work || left) waited_q <= '0;
      else if (tready_i) waited_q <= waited_q + 3'd1;
    end
  end

  always_comb begin
    assume (!is_first_q || !rst_ni);
    assume (!extra_push_i || extras_q < count_t'(Depth));
    if (!is_first_q && rst_ni) begin
      // A record is taken in only with its extra fields, and a beat is one of a record.
      if (take) assert (extras_q != '0);
      if (tvalid) assert (inside_q != '0 && tlast == is_second_q);
      if (is_second_q) assert (inside_q != '0);
      assert (record_left == left);
      if (is_inside_q && ahead_q == '0 && tvalid) assert ((tdata & BeatMask) == expected_q[512*is_second_q+:512]);
      if (was_waiting_q) assert (tvalid && (tdata & BeatMask) == was_data_q && tlast == was_last_q);
      if (has_work && !tvalid) assert (gap_q < 2'd2);
      if (has_work && tready_i && !left) assert (waited_q < 3'd3);
      if (was_ready_q == '1 && tready_i && was_refused_q && has_record) assert (take);
    end
  end

  // ---- relations that make the induction possible ----

  // Beats of the joined record that are not in u_out, and beats in u_out.
  count_t in_joined, in_out;
  always_comb begin
    in_joined = '0;
    if (u_dut.u_joined.valid_q) in_joined = u_dut.is_second_q ? count_t'(1) : count_t'(2);
    in_out = count_t'(u_dut.u_out.valid_q) + count_t'(u_dut.u_out.spare_valid_q);
  end

  // Beats that leave before the first beat of the marked record that has not left.
  count_t beats_ahead;
  logic is_begun;  // its first beat has left
  assign is_begun = ahead_q == '0 && is_second_q;
  assign beats_ahead = is_begun ? '0 : count_t'(2 * ahead_q) - count_t'(is_second_q);

  logic [1:0][511:0] expected;
  assign expected = expected_q;

  localparam int unsigned AddressBits = $clog2(Depth);
  logic [AddressBits-1:0] extra_at;  // place of the marked record's extra fields
  assign extra_at = u_dut.u_extras.read_q + AddressBits'(ahead_q);

  always_comb begin
    if (!is_first_q && rst_ni) begin
      assert (!(is_waiting_q && is_inside_q));
      // u_extras, as in its own proof.
      assert (extras_q <= count_t'(Depth) && extras_q == count_t'(u_dut.u_extras.count_q));
      assert (AddressBits'(extras_q) == AddressBits'(u_dut.u_extras.write_q - u_dut.u_extras.read_q));
      assert (u_dut.u_extras.ready_q == (extras_q != count_t'(Depth)));
      assert (u_dut.u_extras.valid_q == (extras_q != '0));
      if (extra_push_i) assert (u_dut.extras_ready);
      if (is_waiting_q) begin
        assert (ahead_q < extras_q);
        assert ((u_dut.u_extras.memory[extra_at] & ExtraMask) == extra_q);
      end
      // The beats inside are those of whole records, without the one that has left.
      assert (u_dut.u_out.valid_q || !u_dut.u_out.spare_valid_q);
      assert (inside_q <= count_t'(3));
      assert (count_t'(2 * inside_q) - count_t'(is_second_q) == in_joined + in_out);
      if (u_dut.is_second_q) assert (u_dut.u_joined.valid_q);
      if (u_dut.u_out.valid_q) assert (u_dut.u_out.data_q.last == is_second_q);
      if (u_dut.u_out.spare_valid_q) assert (u_dut.u_out.spare_q.last == !is_second_q);
      if (is_inside_q) begin
        assert (ahead_q < inside_q);
        for (int unsigned beat = 0; beat < 2; beat++) begin
          if (!(is_begun && beat == 0)) begin
            automatic count_t at = beats_ahead + (is_begun ? '0 : count_t'(beat));
            if (at == 0 && in_out != 0) assert ((u_dut.u_out.data_q.data & BeatMask) == expected[beat]);
            else if (at == 1 && in_out == 2) assert ((u_dut.u_out.spare_q.data & BeatMask) == expected[beat]);
            else assert ((u_dut.joined[512*beat+:512] & BeatMask) == expected[beat]);
          end
        end
      end
      // The oldest beat moves on in each cycle.
      if (gap_q == 2'd1) assert (in_joined != '0 || in_out != '0);
      if (gap_q >= 2'd2) assert (in_out != '0);
      if (waited_q == 3'd1) assert (inside_q != '0);
      if (waited_q == 3'd2) assert (in_out != '0);
      if (waited_q == 3'd3) assert (u_dut.u_out.valid_q && is_second_q);
      assert (waited_q <= 3'd3);
      if (was_ready_q[0]) assert (!u_dut.u_out.spare_valid_q);
      if (was_refused_q && was_ready_q == '1) assert (u_dut.is_second_q);
    end
  end

endmodule
