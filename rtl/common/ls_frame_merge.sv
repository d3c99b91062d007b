// SPDX-License-Identifier: Apache-2.0
//
// Joins two streams of frames to one, whole frames in turn.
//
// Interface: ready/valid on all streams; last_i marks the last beat of a frame. All outputs are registers. While a
// frame passes, the other stream waits, also if the frame has gaps.
// Latency: one cycle. Throughput: one beat in each cycle.

module ls_frame_merge #(
    parameter type T = logic [7:0]
) (
    input logic clk_i,
    input logic rst_ni,

`ifdef FORMAL
    input logic formal_mark_i,  // unused here; ls_skid has it
`endif

    input logic [1:0] valid_i,
    output logic [1:0] ready_o,
    input T [1:0] data_i,
    input logic [1:0] last_i,

    output logic valid_o,
    input logic ready_i,
    output T data_o,
    output logic last_o,
    output logic source_o  // stream that the beat came from
);

  typedef struct packed {
    logic source;
    logic last;
    T data;
  } joined_t;

  logic is_inside_q, source_q;  // a frame of source_q has begun; source_q: source of the last frame
  logic source, is_valid, is_ready;
  joined_t in, out;

  always_comb begin
    if (is_inside_q) source = source_q;
    else if (source_q) source = !valid_i[0];
    else source = valid_i[1];
  end

  assign is_valid  = valid_i[source];
  assign ready_o   = {is_ready && source, is_ready && !source};
  assign in.source = source;
  assign in.last   = last_i[source];
  assign in.data   = data_i[source];

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      is_inside_q <= 1'b0;
      source_q <= 1'b0;
    end else if (is_valid && is_ready) begin
      is_inside_q <= !in.last;
      source_q <= source;
    end
  end

  ls_skid #(
      .T(joined_t)
  ) u_skid (
      .clk_i,
      .rst_ni,
`ifdef FORMAL
      .formal_mark_i,
`endif
      .valid_i(is_valid),
      .ready_o(is_ready),
      .data_i (in),
      .valid_o,
      .ready_i,
      .data_o (out)
  );

  assign data_o   = out.data;
  assign last_o   = out.last;
  assign source_o = out.source;

`ifdef FORMAL
  // Frames leave whole; neither stream is held back for more than one frame of the other one; and each beat is taken
  // from the stream that is ready.
  logic is_first_q = 1'b1;
  logic out_inside_q, out_source_q;
  logic [1:0] frames_q;  // frames of stream 1 that began while stream 0 waited

  always_ff @(posedge clk_i) begin
    is_first_q <= 1'b0;
    if (!rst_ni) begin
      out_inside_q <= 1'b0;
      out_source_q <= 1'b0;
      frames_q <= '0;
    end else begin
      if (valid_o && ready_i) begin
        out_inside_q <= !last_o;
        out_source_q <= source_o;
      end
      if (!valid_i[0] || ready_o[0]) frames_q <= '0;
      else if (is_valid && is_ready && source && !is_inside_q) frames_q <= frames_q + 1'b1;
    end
  end

  always_comb begin
    assume (!is_first_q || !rst_ni);
    if (!is_first_q && rst_ni) begin
      assert (!(ready_o[0] && ready_o[1]));
      // The frame that has begun to leave the skid buffer continues.
      if (valid_o && out_inside_q) assert (source_o == out_source_q);
      if (u_skid.valid_q && u_skid.spare_valid_q) begin
        assert (u_skid.data_q.last || u_skid.spare_q.source == u_skid.data_q.source);
        assert (is_inside_q == !u_skid.spare_q.last && source_q == u_skid.spare_q.source);
      end else if (u_skid.valid_q) begin
        assert (is_inside_q == !u_skid.data_q.last && source_q == u_skid.data_q.source);
      end else begin
        assert (!u_skid.spare_valid_q && is_inside_q == out_inside_q && source_q == out_source_q);
      end
      // A stream that waits gets its turn after one frame of the other one.
      assert (frames_q <= 2'd1);
      if (frames_q == 2'd1) assert (source_q);
    end
  end
`endif

endmodule
