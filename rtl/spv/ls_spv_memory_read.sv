// SPDX-License-Identifier: Apache-2.0
//
// Reads sets of lines from external memory and compares them with TXIDs: the second level of the table of `spv`. The
// first line of a set with the TXID's first word is compared as a whole, as in ls_spv_lookup.
//
// Interface: request_* asks for one set in each cycle; at most Requests may be without a taken result. Results are in
// the order of the requests. A set is one AXI4 burst of one, two or four beats of 64 bytes, which is aligned to its
// length, so it does not cross a boundary of 4 KiB. All bursts have the same ID, so the data come in order.
// m_axi_rready is always 1: a read is issued only if there is space for its result, and at most Reads are without a
// taken result.
// found_* is 1 for one cycle with each line that was found, for its promotion to the first level. finished_o counts
// the reads whose promotion is given out, and issued_o counts the reads that were put on the address channel.
// Latency: from request to address five cycles, from the last beat to the result eight, and to the promotion three.

module ls_spv_memory_read
  import ls_spv_pkg::*;
#(
    parameter int unsigned LineBits = 22,  // log2 of the number of lines in memory
    parameter int unsigned Requests = 512,  // power of two
    parameter int unsigned Reads = 256,  // power of two
    parameter logic [63:0] Base = '0  // address of the lines, a multiple of their size
) (
    input logic clk_i,
    input logic rst_ni,

    input logic [2:0] ways_i,

    input logic request_valid_i,
    input logic [LineBits-1:0] request_line_i,  // first line of the set
    input logic [255:0] request_txid_i,

    output logic result_valid_o,
    input logic result_ready_i,
    output logic result_found_o,
    output logic [31:0] result_generation_o,
    output logic [31:0] result_slot_o,

    output logic found_o,
    output logic [LineBits-1:0] found_line_o,
    output logic [31:0] found_generation_o,
    output logic [31:0] found_slot_o,
    output logic [255:0] found_txid_o,
    output logic damaged_o,  // 1 for one cycle with each set that was damaged

    output logic [15:0] issued_o,
    output logic [15:0] finished_o,

    output logic [63:0] m_axi_araddr,
    output logic [7:0] m_axi_arlen,
    output logic m_axi_arvalid,
    input logic m_axi_arready,
    input logic [511:0] m_axi_rdata,
    input logic [1:0] m_axi_rresp,
    input logic m_axi_rlast,
    input logic m_axi_rvalid,
    output logic m_axi_rready
);

  localparam int unsigned ReadBits = $clog2(Reads) + 1;

  typedef struct packed {
    logic [LineBits-1:0] line;
    logic [1:0] last_way;
  } address_t;

  typedef struct packed {
    logic [LineBits-1:0] line;
    logic [255:0] txid;
  } key_t;

  typedef struct packed {
    logic is_found;
    logic [31:0] generation;
    logic [31:0] slot;
  } result_t;

  // ---- requests: an address for the address channel, and a key for the data that will come ----

  address_t address_in, address;
  key_t key_in, key;
  logic addresses_ready, address_valid, issue, keys_ready, key_valid, key_taken;

  assign address_in = '{line: request_line_i, last_way: 2'(ways_i - 3'd1)};
  assign key_in = '{line: request_line_i, txid: request_txid_i};

  ls_ram_fifo #(
      .T(address_t),
      .Depth(Requests)
  ) u_addresses (
      .clk_i,
      .rst_ni,
      .valid_i(request_valid_i),
      .ready_o(addresses_ready),
      .data_i (address_in),
      .valid_o(address_valid),
      .ready_i(issue),
      .data_o (address)
  );

  ls_ram_fifo #(
      .T(key_t),
      .Depth(Requests)
  ) u_keys (
      .clk_i,
      .rst_ni,
      .valid_i(request_valid_i),
      .ready_o(keys_ready),
      .data_i (key_in),
      .valid_o(key_valid),
      .ready_i(key_taken),
      .data_o (key)
  );

  // ---- address channel ----

  logic [ReadBits-1:0] open_q;  // reads that were issued and whose result was not taken
  logic result_taken;

  assign result_taken = result_valid_o && result_ready_i;
  assign issue = address_valid && (!m_axi_arvalid || m_axi_arready) && open_q < ReadBits'(Reads);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      m_axi_arvalid <= 1'b0;
      open_q <= '0;
      issued_o <= '0;
    end else begin
      if (issue || m_axi_arready) m_axi_arvalid <= issue;
      open_q <= open_q + ReadBits'(issue) - ReadBits'(result_taken);
      issued_o <= issued_o + 16'(issue);
    end
  end

  always_ff @(posedge clk_i) begin
    if (issue) begin
      m_axi_araddr <= Base | 64'({address.line, 6'd0});
      m_axi_arlen  <= {6'd0, address.last_way};
    end
  end

  // ---- data channel: one line in each cycle ----

  logic beat_valid_q, beat_last_q, beat_is_sound_q;
  logic [1:0] beat_way_q;
  memory_line_t beat_q;

  assign m_axi_rready = 1'b1;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      beat_valid_q <= 1'b0;
      beat_way_q   <= '0;
    end else begin
      beat_valid_q <= m_axi_rvalid;
      if (beat_valid_q) beat_way_q <= beat_last_q ? '0 : beat_way_q + 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    beat_q <= m_axi_rdata;
    beat_last_q <= m_axi_rlast;
    beat_is_sound_q <= !m_axi_rresp[1];
  end

  // The key came before the address, so it is there before the data.
  assign key_taken = beat_valid_q && beat_last_q;

  // ---- comparison ----

  logic line_valid_q, line_last_q, line_is_sound_q, is_first_word_q, is_whole_q;
  logic [31:0] generation_q, slot_q;
  logic [LineBits-1:0] line_q;
  logic [255:0] txid_q;
  logic [255:0] beat_txid;
  assign beat_txid = {beat_q.high_txid, beat_q.low_txid};

  always_ff @(posedge clk_i) begin
    if (!rst_ni) line_valid_q <= 1'b0;
    else line_valid_q <= beat_valid_q;
  end

  always_ff @(posedge clk_i) begin
    line_last_q <= beat_last_q;
    line_is_sound_q <= beat_is_sound_q && beat_q.high_stamp == beat_q.low_stamp;
    is_first_word_q <= beat_txid[63:0] == key.txid[63:0];
    is_whole_q <= beat_txid == key.txid;
    generation_q <= beat_q.generation;
    slot_q <= beat_q.slot;
    line_q <= key.line + LineBits'(beat_way_q);
    txid_q <= key.txid;
  end

  // ---- choice among the lines of the set ----

  logic is_decided_q, is_sound_q;  // of the lines of this set so far
  logic is_decided, is_sound, is_found_q, is_found;
  logic [31:0] chosen_generation_q, chosen_slot_q, chosen_generation, chosen_slot;
  logic [LineBits-1:0] chosen_line_q, chosen_line;
  logic result_valid_q, results_ready;
  result_t result_q, result;

  always_comb begin
    is_decided = is_decided_q || is_first_word_q;
    is_sound = is_sound_q && line_is_sound_q;
    is_found = is_decided_q ? is_found_q : is_first_word_q && is_whole_q && generation_q != '0;
    chosen_generation = is_decided_q ? chosen_generation_q : generation_q;
    chosen_slot = is_decided_q ? chosen_slot_q : slot_q;
    chosen_line = is_decided_q ? chosen_line_q : line_q;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      is_decided_q <= 1'b0;
      is_sound_q <= 1'b1;
      result_valid_q <= 1'b0;
      damaged_o <= 1'b0;
      finished_o <= '0;
    end else begin
      result_valid_q <= line_valid_q && line_last_q;
      damaged_o <= line_valid_q && line_last_q && !is_sound;
      finished_o <= finished_o + 16'(result_valid_q);
      if (line_valid_q) begin
        is_decided_q <= is_decided && !line_last_q;
        is_sound_q   <= is_sound || line_last_q;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (line_valid_q) begin
      is_found_q <= is_found;
      chosen_generation_q <= chosen_generation;
      chosen_slot_q <= chosen_slot;
      chosen_line_q <= chosen_line;
    end
    result_q <= '{is_found: is_found && is_sound, generation: chosen_generation, slot: chosen_slot};
    found_line_o <= chosen_line;
    found_txid_o <= txid_q;
  end

  assign found_o = result_valid_q && result_q.is_found;
  assign found_generation_o = result_q.generation;
  assign found_slot_o = result_q.slot;

  ls_ram_fifo #(
      .T(result_t),
      .Depth(Reads)
  ) u_results (
      .clk_i,
      .rst_ni,
      .valid_i(result_valid_q),
      .ready_o(results_ready),
      .data_i (result_q),
      .valid_o(result_valid_o),
      .ready_i(result_ready_i),
      .data_o (result)
  );

  assign result_found_o = result.is_found;
  assign result_generation_o = result.generation;
  assign result_slot_o = result.slot;

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (!request_valid_i || (addresses_ready && keys_ready)) else $error("a request was lost");
      assert (!beat_valid_q || key_valid) else $error("data came that nothing asked for");
      assert (!result_valid_q || results_ready) else $error("a result was lost");
    end
  end
`endif

endmodule
