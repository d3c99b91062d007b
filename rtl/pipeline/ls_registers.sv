// SPDX-License-Identifier: Apache-2.0
//
// Registers of the AXI4-Lite window (docs/rtl-interface.md): identification, clock, a place for one command, the
// registers of the pipeline, and the counters of drops and of the service. Joins the commands of the window with the
// host's stream of commands.
//
// Interface: one request at a time, as ls_axil and ls_axil_cross give it; the response comes three cycles after the
// request began, whatever the pipeline does. s_command and m_command are streams (ready/valid); m_command is stable
// until it is taken. A command of the window goes first, but never takes the place of a command that already waits.
// A command pair (block_hash, block) must come from one source while the other one sends none of these.

module ls_registers
  import ls_pkg::*;
  import ls_control_pkg::*;
#(
    parameter logic [31:0] Sizes = '0,  // of the tables, for the word `table`
    parameter int unsigned Counters = SpvCounters,  // of the service
    parameter int unsigned CountersAt = AxilCountersSpvAt  // address of the first one
) (
    input logic clk_i,
    input logic rst_ni,

`ifdef FORMAL
    // Constants of the proof: the word of a command, the register and its word, that it follows.
    input logic [3:0] formal_word_i,
    input logic [RegisterIndexBits-1:0] formal_index_i,
`endif

    input logic request_valid_i,
    input bus_request_t request_i,
    output logic response_valid_o,
    output bus_response_t response_o,

    input logic s_command_valid_i,
    output logic s_command_ready_o,
    input command_t s_command_i,

    output logic m_command_valid_o,
    input logic m_command_ready_i,
    output command_t m_command_o,

    input logic [31:0] barrier_i,
    input logic [DropReasons-1:0][63:0] drops_i,
    input logic [Counters-1:0][63:0] counters_i,

    output logic [63:0] now_ns_o
);

  localparam int unsigned RegisterWords = (RegisterBitsMax + 31) / 32;
  typedef logic [RegisterWords-1:0][31:0] words_t;
  localparam int unsigned StrideBits = $clog2(AxilRegisterStride);
  localparam logic [31:0] StepReset = 32'd4 << 24;

  typedef enum logic [1:0] {
    StepIdle,
    StepRead,
    StepAct,
    StepRespond
  } step_e;

  step_e step_q;
  logic [31:0] scratch_q, clock_low_q, clock_high_q, clock_step_q, done_q, high_q;
  logic [AddressBits-4:0] high_at_q;  // counter whose high word is in high_q
  logic is_high_kept_q;
  logic [AxilCommandWords-1:0][31:0] window_q;
  logic slot_valid_q, slot_is_window_q;  // a command of the window waits for the pipeline
  logic clock_set_q;

  // ---- address ----

  logic [AddressBits-1:0] address;
  assign address = {request_i.address[AddressBits-1:2], 2'b00};

  logic is_high, is_clock, is_counter, is_counter_q;
  logic [63:0] counter;
  assign is_high  = address[2];
  assign is_clock = address[AddressBits-1:3] == (AddressBits - 3)'(AxilClockAt / 8);

  always_comb begin
    is_counter = is_clock;
    counter = now_ns_o;
    for (int unsigned i = 0; i < DropReasons; i++) begin
      if (address[AddressBits-1:3] == (AddressBits - 3)'(AxilCountersDropsAt / 8 + i)) begin
        is_counter = 1'b1;
        counter = drops_i[i];
      end
    end
    for (int unsigned i = 0; i < Counters; i++) begin
      if (address[AddressBits-1:3] == (AddressBits - 3)'(CountersAt / 8 + i)) begin
        is_counter = 1'b1;
        counter = counters_i[i];
      end
    end
  end

  logic is_command, is_single, can_write_single;
  logic [31:0] single;
  assign is_command = address[AddressBits-1:6] == (AddressBits - 6)'(AxilCommandAt / 64);

  always_comb begin
    is_single = 1'b1;
    can_write_single = 1'b0;
    single = '0;
    case (address)
      AddressBits'(AxilIdentityAt): single = AxilIdentity;
      AddressBits'(AxilVersionAt): single = AxilVersion;
      AddressBits'(AxilTableAt): single = Sizes;
      AddressBits'(AxilStatusAt): single = {31'd0, slot_valid_q};
      AddressBits'(AxilCommandsDoneAt): single = done_q;
      AddressBits'(AxilBarrierAt): single = barrier_i;
      AddressBits'(AxilScratchAt): begin
        single = scratch_q;
        can_write_single = 1'b1;
      end
      AddressBits'(AxilClockStepAt): begin
        single = clock_step_q;
        can_write_single = 1'b1;
      end
      default: is_single = 1'b0;
    endcase
  end

  // ---- registers of the pipeline ----

  // Copy of the registers: what the commands `register` of both sources wrote since the reset.
  (* ram_style = "distributed" *)
  words_t copies[1<<RegisterIndexBits];
  logic [(1<<RegisterIndexBits)-1:0] is_written_q;
  words_t copy_q, held_q, merged;
  logic [RegisterIndexBits-1:0] index, held_index_q;
  logic [2:0] word;
  logic is_held_q, is_register, is_last_word, was_written_q;
  logic [8:0] bits, bits_before;
  logic [31:0] copy_word;

  assign index = address[StrideBits+:RegisterIndexBits];
  assign word = address[StrideBits-1:2];
  assign bits = register_bits(index);
  assign bits_before = {1'b0, word, 5'd0};
  assign is_register = address[AddressBits-1] && bits > bits_before &&
                       (32'(address[AddressBits-2:StrideBits]) >> RegisterIndexBits) == '0;
  assign is_last_word = bits - bits_before <= 9'd32;

  always_comb begin
    logic [8:0] left;
    left = bits - bits_before;
    copy_word = '0;
    merged = is_held_q && held_index_q == index ? held_q : copy_q;
    for (int unsigned i = 0; i < RegisterWords; i++) begin
      if (word == 3'(i)) begin
        copy_word = copy_q[i];
        merged[i] = request_i.data;
      end
    end
    // Bits that the register does not have read as 0.
    if (left < 9'd32) copy_word &= ~(32'hffff_ffff << left[4:0]);
  end

  // ---- response and effect ----

  logic use_slot, slot_taken, stream_waits_q;

  logic [63:0] counter_q;
  logic [31:0] single_q, command_q, data;
  logic can_read, can_write, is_write, send;

  assign is_write = request_i.is_write && step_q == StepAct;
  assign send = is_write && can_write && (address == AddressBits'(AxilDoorbellAt) || (is_register && is_last_word));

  always_comb begin
    can_read = is_single || is_command || is_register;
    can_write = can_write_single || is_clock;
    data = single_q;
    if (is_counter_q) begin
      can_read = !is_high || (is_high_kept_q && high_at_q == address[AddressBits-1:3]);
      data = is_high ? high_q : counter_q[31:0];
    end
    if (is_command) data = command_q;
    if (is_register) data = copy_word;
    if (is_command || is_register || address == AddressBits'(AxilDoorbellAt)) can_write = !slot_valid_q;
  end

  // One cycle ahead of the copy: a register that is written for the first time in between reads as after the reset.
  always_ff @(posedge clk_i) begin
    was_written_q <= is_written_q[index];
    is_counter_q <= is_counter;
  end

  always_ff @(posedge clk_i) begin
    if (step_q == StepRead) begin
      counter_q <= counter;
      single_q <= single;
      command_q <= window_q[address[5:2]];
      copy_q <= was_written_q ? copies[index] : words_t'((32 * RegisterWords)'(register_reset(index)));
    end
    if (step_q == StepAct) begin
      response_o.is_error <= request_i.is_write ? !can_write : !can_read;
      response_o.data <= data;
    end
  end

  assign response_valid_o = step_q == StepRespond;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      step_q <= StepIdle;
      scratch_q <= '0;
      clock_step_q <= StepReset;
      clock_set_q <= 1'b0;
      is_high_kept_q <= 1'b0;
      is_held_q <= 1'b0;
      slot_valid_q <= 1'b0;
      done_q <= '0;
    end else begin
      case (step_q)
        StepIdle: if (request_valid_i) step_q <= StepRead;
        StepRead: step_q <= StepAct;
        StepAct:  step_q <= StepRespond;
        default:  step_q <= StepIdle;
      endcase
      if (step_q == StepAct && !request_i.is_write && is_counter_q && !is_high) is_high_kept_q <= 1'b1;
      if (is_write && address == AddressBits'(AxilScratchAt)) scratch_q <= request_i.data;
      if (is_write && address == AddressBits'(AxilClockStepAt)) clock_step_q <= request_i.data;
      clock_set_q <= is_write && is_clock && is_high;
      if (is_write && is_register && can_write) is_held_q <= !is_last_word;
      if (send) slot_valid_q <= 1'b1;
      else if (slot_taken) slot_valid_q <= 1'b0;
      if (slot_taken) done_q <= done_q + 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (step_q == StepAct && !request_i.is_write && is_counter_q && !is_high) begin
      high_q <= counter_q[63:32];
      high_at_q <= address[AddressBits-1:3];
    end
    if (is_write && is_clock && !is_high) clock_low_q <= request_i.data;
    if (is_write && is_clock && is_high) clock_high_q <= request_i.data;
    if (is_write && is_command && can_write) window_q[address[5:2]] <= request_i.data;
    if (is_write && is_register && can_write) begin
      held_q <= merged;
      held_index_q <= index;
    end
    if (send) slot_is_window_q <= !is_register;
  end

  ls_clock u_clock (
      .clk_i,
      .rst_ni,
      .step_i(clock_step_q),
      .set_i(clock_set_q),
      .set_ns_i({clock_high_q, clock_low_q}),
      .now_ns_o
  );

  // ---- commands ----

  command_t slot;

  assign use_slot = slot_valid_q && !stream_waits_q;
  assign slot_taken = use_slot && m_command_ready_i;
  assign s_command_ready_o = m_command_ready_i && !use_slot;
  assign m_command_valid_o = use_slot || s_command_valid_i;
  assign m_command_o = use_slot ? slot : s_command_i;

  always_comb begin
    slot = '0;
    slot.op = CommandRegister;
    slot.index = 32'(held_index_q);
    slot.value = 256'(held_q);
    if (slot_is_window_q) slot = command_t'(window_q);
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) stream_waits_q <= 1'b0;
    else stream_waits_q <= s_command_valid_i && !s_command_ready_o && !use_slot;
  end

  // Every command that the pipeline takes passes here, and registers are copied one cycle later.
  logic taken_q;
  logic [31:0] taken_op_q, taken_index_q;
  words_t taken_value_q;
  logic   copy_write;

  assign copy_write = taken_q && taken_op_q == CommandRegister && taken_index_q[31:RegisterIndexBits] == '0;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      taken_q <= 1'b0;
      is_written_q <= '0;
    end else begin
      taken_q <= m_command_valid_o && m_command_ready_i;
      if (copy_write) is_written_q[taken_index_q[RegisterIndexBits-1:0]] <= 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    taken_op_q <= m_command_o.op;
    taken_index_q <= m_command_o.index;
    taken_value_q <= words_t'(m_command_o.value[32*RegisterWords-1:0]);
    if (copy_write) copies[taken_index_q[RegisterIndexBits-1:0]] <= taken_value_q;
  end

`ifdef FORMAL
  logic is_first_q = 1'b1;
  logic was_reset_q, request_waits_q, response_was_q, m_waits_q, s_waits_q;
  bus_request_t request_waiting_q;
  command_t m_waiting_q, s_waiting_q;
  logic [3:0] word_was_q;
  logic [RegisterIndexBits-1:0] index_was_q;
  logic [1:0] age_q;
  logic [31:0] sent_q;  // commands that the window's writes have caused
  logic [31:0] word_copy_q, scratch_copy_q;
  logic is_word_known_q;
  // The counter whose low word was read last with success, as a whole.
  logic [63:0] sampled_q, kept_q;
  logic [AddressBits-4:0] kept_at_q;
  logic is_kept_q;
  // Value that the last command `register` with the index of the proof wrote.
  logic register_taken_q, is_register_known_q;
  words_t register_taken_value_q, register_copy_q;
  logic is_okay_write, is_okay_read;

  assign is_okay_write = response_valid_o && request_i.is_write && !response_o.is_error;
  assign is_okay_read  = response_valid_o && !request_i.is_write && !response_o.is_error;

  always_ff @(posedge clk_i) begin
    is_first_q <= 1'b0;
    was_reset_q <= !rst_ni;
    word_was_q <= formal_word_i;
    index_was_q <= formal_index_i;
    request_waits_q <= rst_ni && request_valid_i && !response_valid_o;
    response_was_q <= rst_ni && response_valid_o;
    request_waiting_q <= request_i;
    m_waits_q <= rst_ni && m_command_valid_o && !m_command_ready_i;
    m_waiting_q <= m_command_o;
    s_waits_q <= rst_ni && s_command_valid_i && !s_command_ready_o;
    s_waiting_q <= s_command_i;
    if (step_q == StepRead) sampled_q <= counter;
    if (!rst_ni) begin
      age_q <= '0;
      sent_q <= '0;
      is_word_known_q <= 1'b0;
      scratch_copy_q <= '0;
      is_kept_q <= 1'b0;
      register_taken_q <= 1'b0;
      is_register_known_q <= 1'b0;
    end else begin
      age_q <= request_valid_i && !response_valid_o ? age_q + 1'b1 : '0;
      if (is_okay_write && (address == AddressBits'(AxilDoorbellAt) || (is_register && is_last_word))) begin
        sent_q <= sent_q + 1'b1;
      end
      if (is_okay_write && address == AddressBits'(AxilCommandAt + 4 * formal_word_i)) begin
        is_word_known_q <= 1'b1;
        word_copy_q <= request_i.data;
      end
      if (is_okay_write && address == AddressBits'(AxilScratchAt)) scratch_copy_q <= request_i.data;
      if (is_okay_read && is_counter && !is_high) begin
        is_kept_q <= 1'b1;
        kept_q <= sampled_q;
        kept_at_q <= address[AddressBits-1:3];
      end
      register_taken_q <= m_command_valid_o && m_command_ready_i && m_command_o.op == CommandRegister &&
                          m_command_o.index == 32'(formal_index_i);
      register_taken_value_q <= words_t'(m_command_o.value[32*RegisterWords-1:0]);
      if (register_taken_q) begin
        is_register_known_q <= 1'b1;
        register_copy_q <= register_taken_value_q;
      end
    end
  end

  always_comb begin
    assume (!is_first_q || !rst_ni);
    if (!is_first_q) assume (formal_word_i == word_was_q && formal_index_i == index_was_q);
    // The bus: a request is stable until its response, and goes away after it.
    if (request_waits_q) assume (request_valid_i && request_i == request_waiting_q);
    if (response_was_q || was_reset_q) assume (!request_valid_i);
    if (!is_first_q && rst_ni && !was_reset_q && s_waits_q) begin
      assume (s_command_valid_i && s_command_i == s_waiting_q);
    end
    if (!is_first_q && rst_ni && !was_reset_q) begin
      // Exactly one response for each request, in the third cycle after it began.
      assert (age_q == (step_q == StepIdle ? 2'd0 : 2'(step_q)));
      if (step_q != StepIdle) assert (request_valid_i);
      // The stream of commands to the pipeline is stable.
      if (m_waits_q) assert (m_command_valid_o && m_command_o == m_waiting_q);
      // Each doorbell, and each last word of a register, gives one command, and nothing else does.
      if (step_q != StepRespond) assert (sent_q - done_q == 32'(slot_valid_q));
      // The command has what was written to the window.
      if (is_word_known_q && step_q != StepRespond) begin
        assert (window_q[formal_word_i] == word_copy_q);
        if (use_slot && slot_is_window_q) assert (m_command_o[32*formal_word_i+:32] == word_copy_q);
      end
      if (step_q != StepRespond) assert (scratch_q == scratch_copy_q);
      // A low word and the high word that is read after it are of one moment.
      if (step_q != StepRespond) begin
        assert (is_high_kept_q == is_kept_q);
        if (is_kept_q) assert (high_q == kept_q[63:32] && high_at_q == kept_at_q);
      end
      if (step_q == StepAct || step_q == StepRespond) assert (counter_q == sampled_q);
      if (is_okay_read && is_counter && !is_high) assert (response_o.data == sampled_q[31:0]);
      if (is_okay_read && is_counter && is_high) begin
        assert (is_kept_q && kept_at_q == address[AddressBits-1:3] && response_o.data == kept_q[63:32]);
      end
      // The copy of a register has the value of the last `register` command, from either source.
      assert (register_taken_q == (copy_write && taken_index_q == 32'(formal_index_i)));
      if (register_taken_q) assert (taken_value_q == register_taken_value_q);
      assert (is_written_q[formal_index_i] == is_register_known_q);
      if (is_register_known_q) assert (copies[formal_index_i] == register_copy_q);
      // Addresses that nothing has are refused.
      if (response_valid_o && !is_single && !is_command && !is_register && !is_counter &&
          address != AddressBits'(AxilDoorbellAt))
        assert (response_o.is_error);
    end
  end
`endif

endmodule
