// SPDX-License-Identifier: Apache-2.0
//
// Drives the model that Verilator makes of ls_spv_core or ls_transfer_core, or, in a build with LS_SIM_WINDOW, of
// ls_sim_nic: there the clock of the leases is set and the counters are read over AXI4-Lite. See ls_sim.h.

#include "ls_sim.h"

#include <cstring>
#include <new>
#include <vector>

#include "ls_sim_model.h"  // written by scripts/rtl-sim.sh: the class of the model
#include "verilated.h"
#ifdef LS_SIM_TRACE
#include "verilated_fst_c.h"
#endif
#ifdef LS_SIM_TRANSFER
#include "ls_sim_transfer.h"
#endif
#ifdef LS_SIM_MEMORY
#include "ls_sim_memory.h"
#endif
#ifdef LS_SIM_WINDOW
#include "ls_sim_window.h"
#endif

// A program may contain several designs, each with this function.
__attribute__((weak)) double sc_time_stamp() { return 0; }

// Evaluation in the code that Verilator makes. Vls_sim::eval also flushes the queue of messages of Verilator's threads,
// which takes two locks; this model has no threads, so its messages do not wait in a queue.
void ls_sim_model_eval(ls_sim_model_root *);

namespace {

constexpr size_t kBeatBytes = 64;
// Cycles without any progress after which a run has failed. Pauses of 255/256 make long waits possible.
constexpr uint64_t kPatience = 100000;
constexpr uint32_t kResetCycles = 16;
// Layout of a command and code of `barrier`, from spec/rtl.toml.
constexpr size_t kCommandIndexAt = 4;
constexpr uint32_t kCommandBarrier = 6;

// xorshift64*, for pauses only.
struct Random {
    uint64_t state;
    bool one_in_256(uint8_t share) {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        return (state * 0x2545f4914f6cdd1dULL >> 56) < share;
    }
};

// One output stream, and the check that a waiting beat does not change.
struct Output {
    bool was_waiting = false;
    bool last = false;
    uint64_t keep = 0;
    uint8_t data[kBeatBytes];

    bool holds(bool valid, bool now_last, uint64_t now_keep, const void *now_data) const {
        return !was_waiting || (valid && last == now_last && keep == now_keep && !memcmp(data, now_data, kBeatBytes));
    }
    void note(bool waits, bool now_last, uint64_t now_keep, const void *now_data) {
        was_waiting = waits;
        if (!waits) return;
        last = now_last;
        keep = now_keep;
        memcpy(data, now_data, kBeatBytes);
    }
};

// Sender of the commands of a run with frames and commands at the same time.
struct Commands {
    const ls_sim_mixed *mixed;
    Random random;
    size_t taken = 0;
    bool offers = false, waits_for_barrier = false;

    Commands(const ls_sim_mixed *given, uint64_t seed) : mixed(given), random{(seed ^ 0x5bd1e995) | 1} {}
    bool are_done() const { return !mixed || (taken == mixed->commands_count && !waits_for_barrier); }
    uint32_t word(size_t number, size_t at) const {
        uint32_t value;
        memcpy(&value, mixed->commands + number * kBeatBytes + at, sizeof(value));
        return value;
    }
    template <typename Top>
    void drive(Top &top) {
        if (!mixed) return;
        if (!offers && taken < mixed->commands_count && !random.one_in_256(mixed->commands_pause)) {
            memcpy(&top.s_command_tdata, mixed->commands + taken * kBeatBytes, kBeatBytes);
            offers = true;
        }
        top.s_command_tvalid = offers;
    }
    // Returns whether a command was taken in or a barrier completed.
    template <typename Top>
    bool edge(Top &top, uint64_t cycle) {
        if (!mixed) return false;
        bool moves = false;
        if (waits_for_barrier && top.barrier_o == word(taken - 1, kCommandIndexAt)) {
            mixed->command_done[taken - 1] = cycle;
            waits_for_barrier = false;
            moves = true;
        }
        if (offers && top.s_command_tready) {
            offers = false;
            mixed->command_done[taken] = cycle;
            waits_for_barrier = word(taken, 0) == kCommandBarrier;
            taken++;
            moves = true;
        }
        return moves;
    }
};

// Context of the model. Signals can be traced only if this is known before the model exists.
struct Context : VerilatedContext {
#ifdef LS_SIM_TRACE
    Context() { traceEverOn(true); }
#endif
};

// Events of a run, and the counters before the present cycle.
struct Watch {
    bool is_on = false;
    std::vector<ls_sim_event> events;
    uint64_t counters[LS_SIM_COUNTERS], drops[LS_SIM_DROPS];

    void note(uint64_t cycle, ls_sim_event_kind kind, uint32_t index) { events.push_back({cycle, kind, index}); }
    void compare(uint64_t cycle, ls_sim_event_kind kind, uint64_t *before, const void *now, size_t count) {
        uint64_t values[LS_SIM_COUNTERS + LS_SIM_DROPS];
        memcpy(values, now, count * sizeof(uint64_t));
        // A counter rises at the end of the cycle after that of the decision.
        for (uint32_t i = 0; i < count; i++)
            if (values[i] != before[i]) note(cycle - 2, kind, i);
        memcpy(before, values, count * sizeof(uint64_t));
    }
    template <typename Top>
    void begin(Top &top) {
        events.clear();
        memcpy(counters, &top.counters_o, sizeof(counters));
        memcpy(drops, &top.drops_o, sizeof(drops));
    }
    template <typename Top>
    void cycle(Top &top, uint64_t now) {
        compare(now, LS_SIM_EVENT_COUNTED, counters, &top.counters_o, LS_SIM_COUNTERS);
        compare(now, LS_SIM_EVENT_DROPPED, drops, &top.drops_o, LS_SIM_DROPS);
        if (top.s_axis_tvalid && top.s_axis_tready) note(now, LS_SIM_EVENT_IN, top.s_axis_tlast);
        if (top.m_axis_network_tvalid && top.m_axis_network_tready)
            note(now, LS_SIM_EVENT_NETWORK, top.m_axis_network_tlast);
        if (top.m_axis_host_tvalid && top.m_axis_host_tready) note(now, LS_SIM_EVENT_HOST, top.m_axis_host_tlast);
        if (top.frame_passed_o) note(now, LS_SIM_EVENT_PASSED, top.passed_verdict_o);
    }
};

}  // namespace

struct ls_sim {
    Context context;
    ls_sim_model top{&context};
    const char *fault = nullptr;
    uint64_t cycles = 0;
    uint64_t latency = 0;
    uint32_t reset_cycles = kResetCycles;  // of the reset that are to come
    Output network, host;
    Watch watch;
#ifdef LS_SIM_TRACE
    static constexpr uint64_t kCycleNs = 4, kEdgeNs = 2;
    VerilatedFstC trace;
    uint64_t trace_begin = 0;
    void dump(uint64_t after_ns) {
        if (trace.isOpen()) trace.dump((cycles - trace_begin) * kCycleNs + after_ns);
    }
#else
    void dump(uint64_t) {}
    static constexpr uint64_t kEdgeNs = 0;
#endif
#ifdef LS_SIM_TRANSFER
    ls::Streams streams;
#endif
#ifdef LS_SIM_MEMORY
    ls::Memory memory{LS_SIM_MEMORY};  // log2 of its number of lines
#endif

    // The short call skips the locks of Verilator's message queue. It is allowed only after top.eval(), which initializes
    // the model; and a waveform needs the long one, which marks that signals have changed.
#ifdef LS_SIM_TRACE
    void eval() { top.eval(); }
#else
    void eval() { ls_sim_model_eval(top.rootp); }
#endif
    void settle() {
        top.clk_i = 0;
        top.rst_ni = !reset_cycles;
#ifdef LS_SIM_TRANSFER
        streams.drive(top);
#endif
#ifdef LS_SIM_MEMORY
        memory.drive(top);
#endif
        eval();
        dump(0);
    }
    void edge() {
#ifdef LS_SIM_TRANSFER
        streams.edge(top);
        if (!fault) fault = streams.fault;
#endif
#ifdef LS_SIM_MEMORY
        memory.edge(top);
        if (!fault) fault = memory.fault();
#endif
        top.clk_i = 1;
        eval();
        dump(kEdgeNs);
        cycles++;
        if (reset_cycles) reset_cycles--;
    }
};

extern "C" {

#ifdef LS_SIM_WINDOW
int ls_sim_read(struct ls_sim *sim, uint32_t address, uint32_t *data) { return ls::window_read(*sim, address, *data); }

int ls_sim_write(struct ls_sim *sim, uint32_t address, uint32_t data) { return ls::window_write(*sim, address, data); }
#endif

struct ls_sim *ls_sim_new(void) {
    ls_sim *sim = new (std::nothrow) ls_sim;
    if (!sim) return nullptr;
#ifdef LS_SIM_MEMORY
    if (!sim->memory.exists()) {
        delete sim;
        return nullptr;
    }
#endif
    sim->top.rst_ni = 0;
    sim->top.s_axis_tvalid = 0;
    sim->top.s_command_tvalid = 0;
    sim->top.m_axis_network_tready = 0;
    sim->top.m_axis_host_tready = 0;
#ifdef LS_SIM_WINDOW
    ls::window_idle(sim->top);
#else
    sim->top.now_ns_i = 0;
#endif
    sim->top.clk_i = 0;
    sim->top.eval();
    for (uint32_t i = 0; i < kResetCycles + 32; i++) {
        sim->settle();
        sim->edge();
    }
    return sim;
}

void ls_sim_reset(struct ls_sim *sim, uint32_t more) {
    sim->reset_cycles = kResetCycles + more;
    for (uint32_t i = 0; i < kResetCycles; i++) {
        sim->settle();
        sim->edge();
    }
    sim->network = sim->host = Output{};
#ifdef LS_SIM_TRANSFER
    sim->streams.reset();
#endif
}

void ls_sim_free(struct ls_sim *sim) { delete sim; }

void ls_sim_set_now(struct ls_sim *sim, uint64_t now_ns) {
#ifdef LS_SIM_WINDOW
    ls::window_set_clock(*sim, now_ns);
#else
    sim->top.now_ns_i = now_ns;
#endif
}

uint64_t ls_sim_command(struct ls_sim *sim, const uint8_t *commands, size_t count) {
    auto &top = sim->top;
    const uint64_t begin = sim->cycles;
    uint64_t waited = 0;
    top.m_axis_network_tready = 1;
    top.m_axis_host_tready = 1;
    for (size_t done = 0; done < count;) {
        top.s_command_tvalid = 1;
        memcpy(&top.s_command_tdata, commands + done * kBeatBytes, kBeatBytes);
        sim->settle();
        const bool taken = top.s_command_tready;
        sim->edge();
        waited = taken ? 0 : waited + 1;
        done += taken;
        if (waited > kPatience) {
            top.s_command_tvalid = 0;
            sim->fault = "a barrier did not complete";
            return 0;
        }
    }
    top.s_command_tvalid = 0;
    // A command takes effect three cycles after it was taken in; a barrier needs two more.
    for (int i = 0; i < 5; i++) {
        sim->settle();
        sim->edge();
    }
#ifdef LS_SIM_TRANSFER
    while (sim->streams.answered < sim->streams.orders && !sim->fault) {
        sim->settle();
        sim->edge();
        if (sim->cycles - begin > kPatience * (count + 1)) sim->fault = "an order got no response";
    }
#endif
#ifdef LS_SIM_MEMORY
    while (!top.lines_done_o && !sim->fault) {
        sim->settle();
        sim->edge();
        if (sim->cycles - begin > kPatience * (count + 1)) sim->fault = "a line was not written";
    }
#endif
    return sim->fault ? 0 : sim->cycles - begin;
}

uint64_t ls_sim_run(struct ls_sim *sim, const uint8_t *frames, const uint32_t *bytes, size_t count,
                    const struct ls_sim_pauses *pauses, uint8_t *out, uint32_t *out_bytes, uint8_t *verdicts) {
    return ls_sim_run_mixed(sim, frames, bytes, count, pauses, out, out_bytes, verdicts, nullptr);
}

uint64_t ls_sim_run_mixed(struct ls_sim *sim, const uint8_t *frames, const uint32_t *bytes, size_t count,
                          const struct ls_sim_pauses *pauses, uint8_t *out, uint32_t *out_bytes, uint8_t *verdicts,
                          const struct ls_sim_mixed *mixed) {
    auto &top = sim->top;
    Commands commands{mixed, pauses ? pauses->seed : 1};
    const ls_sim_pauses pause = pauses ? *pauses : ls_sim_pauses{1, 0, 0, 0};
    Random random{pause.seed | 1};
    const uint64_t begin = sim->cycles;
    uint64_t progress = sim->cycles, last_in = 0;
    size_t in_frame = 0, in_at = 0, out_frame = 0, out_at = 0;
    const uint8_t *in = frames;
    bool offers = false;  // a beat that is offered stays offered until it is taken
    sim->fault = nullptr;
    sim->latency = 0;
    if (sim->watch.is_on) sim->watch.begin(top);
    for (size_t i = 0; i < count; i++) {
        if (!bytes[i] || bytes[i] > LS_SIM_FRAME_BYTES_MAX) {
            sim->fault = "a frame is empty or longer than LS_SIM_FRAME_BYTES_MAX";
            return 0;
        }
    }
    while (out_frame < count || !commands.are_done()) {
        const size_t left = in_frame < count ? bytes[in_frame] - in_at : 0;
        const size_t now = left < kBeatBytes ? left : kBeatBytes;
        if (!offers && left && !random.one_in_256(pause.source)) {
            // Bytes after the end of the frame must not matter.
            memset(&top.s_axis_tdata, 0xa5, kBeatBytes);
            memcpy(&top.s_axis_tdata, in, now);
            top.s_axis_tkeep = now == kBeatBytes ? ~0ULL : (1ULL << now) - 1;
            top.s_axis_tlast = now == left;
            offers = true;
        }
        top.s_axis_tvalid = offers;
        top.m_axis_network_tready = !random.one_in_256(pause.network);
        top.m_axis_host_tready = !random.one_in_256(pause.host);
        commands.drive(top);
        sim->settle();
        if (commands.edge(top, sim->cycles)) progress = sim->cycles;
        if (sim->watch.is_on) sim->watch.cycle(top, sim->cycles);

        const bool network = top.m_axis_network_tvalid, host = top.m_axis_host_tvalid;
        const void *network_data = &top.m_axis_network_tdata, *host_data = &top.m_axis_host_tdata;
        const bool network_last = top.m_axis_network_tlast, host_last = top.m_axis_host_tlast;
        const uint64_t network_keep = top.m_axis_network_tkeep, host_keep = top.m_axis_host_tkeep;
        if (!sim->network.holds(network, network_last, network_keep, network_data) ||
            !sim->host.holds(host, host_last, host_keep, host_data) || (network && host)) {
            sim->fault = "a beat changed before it was accepted";
            break;
        }
        const bool network_moves = network && top.m_axis_network_tready, host_moves = host && top.m_axis_host_tready;
        sim->network.note(network && !network_moves, network_last, network_keep, network_data);
        sim->host.note(host && !host_moves, host_last, host_keep, host_data);
        if ((network || host) && out_frame + 1 == count && !out_at && !sim->latency && in_frame == count)
            sim->latency = sim->cycles - last_in;
        if (network_moves || host_moves) {
            const uint64_t keep = network_moves ? network_keep : host_keep;
            const bool last = network_moves ? network_last : host_last;
            const size_t used = keep == ~0ULL ? kBeatBytes : static_cast<size_t>(__builtin_ctzll(~keep));
            const bool has_gap = used < kBeatBytes && keep >> used;
            if (has_gap || !used || (!last && used != kBeatBytes) || out_at + used > bytes[out_frame]) {
                sim->fault = "an output frame has another length than its input, or gaps";
                break;
            }
            memcpy(out + out_at, network_moves ? network_data : host_data, used);
            out_at += used;
        }
        if (top.frame_passed_o) {
            verdicts[out_frame] = top.passed_verdict_o;
            out_bytes[out_frame] = out_at;
            if (mixed) mixed->frame_out[out_frame] = sim->cycles;
            out += bytes[out_frame];
            out_at = 0;
            out_frame++;
            progress = sim->cycles;
        }
        if (offers && top.s_axis_tready) {
            offers = false;
            in += now;
            in_at += now;
            progress = sim->cycles;
            if (in_at == bytes[in_frame]) {
                if (mixed) mixed->frame_in[in_frame] = sim->cycles;
                in_at = 0;
                in_frame++;
                last_in = sim->cycles;
            }
        }
        sim->edge();
        if (sim->cycles - progress > kPatience) {
            sim->fault = "a frame did not leave";
            break;
        }
        if (sim->fault) break;
    }
    top.s_axis_tvalid = 0;
    top.s_command_tvalid = 0;
    return sim->fault ? 0 : sim->cycles - begin;
}

const char *ls_sim_fault(const struct ls_sim *sim) { return sim->fault; }

uint64_t ls_sim_latency(const struct ls_sim *sim) { return sim->latency; }

uint64_t ls_sim_cycles(const struct ls_sim *sim) { return sim->cycles; }

void ls_sim_watch(struct ls_sim *sim, int is_on) { sim->watch.is_on = is_on; }

size_t ls_sim_events(const struct ls_sim *sim, struct ls_sim_event *out, size_t most) {
    const auto &events = sim->watch.events;
    const size_t count = events.size() < most ? events.size() : most;
    if (count) memcpy(out, events.data(), count * sizeof(*out));
    return count;
}

#ifdef LS_SIM_TRACE
int ls_sim_trace_begin(struct ls_sim *sim, const char *path) {
    sim->trace_begin = sim->cycles;
    sim->trace.set_time_unit("1ns");
    sim->trace.set_time_resolution("1ns");
    sim->top.trace(&sim->trace, 99);
    sim->trace.open(path);
    return sim->trace.isOpen();
}

int ls_sim_trace_end(struct ls_sim *sim) {
    for (int i = 0; i < 4; i++) {
        sim->settle();
        sim->edge();
    }
    const bool was_open = sim->trace.isOpen();
    sim->trace.close();
    return was_open;
}
#endif

void ls_sim_counters(const struct ls_sim *sim, uint64_t counters[LS_SIM_COUNTERS], uint64_t drops[LS_SIM_DROPS]) {
#ifdef LS_SIM_WINDOW
    // The bus needs clock cycles, in which no frame passes.
    ls_sim &bus = *const_cast<ls_sim *>(sim);
    for (uint32_t i = 0; i < LS_SIM_COUNTERS; i++) counters[i] = ls::window_counter(bus, ls::kCountersAt + 8 * i);
    for (uint32_t i = 0; i < LS_SIM_DROPS; i++) drops[i] = ls::window_counter(bus, ls::kDropsAt + 8 * i);
#else
    memcpy(counters, &sim->top.counters_o, LS_SIM_COUNTERS * sizeof(uint64_t));
    memcpy(drops, &sim->top.drops_o, LS_SIM_DROPS * sizeof(uint64_t));
#endif
}

#ifdef LS_SIM_TRANSFER
void ls_sim_pause_records(struct ls_sim *sim, uint16_t share) { sim->streams.record_pause = share; }

void ls_sim_pause_responses(struct ls_sim *sim, uint16_t share) { sim->streams.response_pause = share; }

size_t ls_sim_take_records(struct ls_sim *sim, uint8_t *out, size_t most) {
    for (int idle = 0; idle < 8 && sim->streams.record_pause < 256; idle++) {
        sim->settle();
        if (sim->top.m_axis_record_tvalid) idle = 0;
        sim->edge();
    }
    return sim->streams.records.take(out, ls::Streams::kRecordBytes, most);
}

size_t ls_sim_take_responses(struct ls_sim *sim, uint8_t *out, size_t most) {
    return sim->streams.responses.take(out, ls::Streams::kResponseBytes, most);
}
#endif

#ifdef LS_SIM_MEMORY
void ls_sim_memory_set(struct ls_sim *sim, const struct ls_sim_memory *memory) { sim->memory.configure(*memory); }

void ls_sim_memory_counters(const struct ls_sim *sim, uint64_t counters[LS_SIM_MEMORY_COUNTERS],
                            uint64_t *most_reads) {
    memcpy(counters, &sim->top.memory_counters_o, LS_SIM_MEMORY_COUNTERS * sizeof(uint64_t));
    *most_reads = sim->memory.most_reads();
}
#endif

}  // extern "C"
