// SPDX-License-Identifier: Apache-2.0
//
// C interface to the simulated NIC: ls_spv_core or, with LS_SIM_TRANSFER, ls_transfer_core, built by Verilator. Whole
// frames go in and come out in each call. A simulation belongs to one thread at a time.

#pragma once
#include <stddef.h>
#include <stdint.h>

#ifdef LS_SIM_NAME
// The names of the functions begin with LS_SIM_NAME, so that a program can contain several designs.
#define LS_SIM_JOIN_NOW(begin, end) begin##end
#define LS_SIM_JOIN(begin, end) LS_SIM_JOIN_NOW(begin, end)
#define ls_sim LS_SIM_NAME
#define ls_sim_command LS_SIM_JOIN(LS_SIM_NAME, _command)
#define ls_sim_counters LS_SIM_JOIN(LS_SIM_NAME, _counters)
#define ls_sim_cycles LS_SIM_JOIN(LS_SIM_NAME, _cycles)
#define ls_sim_fault LS_SIM_JOIN(LS_SIM_NAME, _fault)
#define ls_sim_free LS_SIM_JOIN(LS_SIM_NAME, _free)
#define ls_sim_latency LS_SIM_JOIN(LS_SIM_NAME, _latency)
#define ls_sim_memory_counters LS_SIM_JOIN(LS_SIM_NAME, _memory_counters)
#define ls_sim_memory_set LS_SIM_JOIN(LS_SIM_NAME, _memory_set)
#define ls_sim_new LS_SIM_JOIN(LS_SIM_NAME, _new)
#define ls_sim_pause_records LS_SIM_JOIN(LS_SIM_NAME, _pause_records)
#define ls_sim_pause_responses LS_SIM_JOIN(LS_SIM_NAME, _pause_responses)
#define ls_sim_reset LS_SIM_JOIN(LS_SIM_NAME, _reset)
#define ls_sim_run LS_SIM_JOIN(LS_SIM_NAME, _run)
#define ls_sim_run_mixed LS_SIM_JOIN(LS_SIM_NAME, _run_mixed)
#define ls_sim_set_now LS_SIM_JOIN(LS_SIM_NAME, _set_now)
#define ls_sim_take_records LS_SIM_JOIN(LS_SIM_NAME, _take_records)
#define ls_sim_take_responses LS_SIM_JOIN(LS_SIM_NAME, _take_responses)
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct ls_sim;

// Verdict on a frame; the numbers are those of verdict_e in ls_pipeline_pkg.sv.
enum ls_sim_verdict { LS_SIM_FORWARD = 0, LS_SIM_REPLY = 1, LS_SIM_DROP = 2 };

#define LS_SIM_API __attribute__((visibility("default")))
#define LS_SIM_FRAME_BYTES_MAX 16384
#ifdef LS_SIM_TRANSFER
#define LS_SIM_COUNTERS 7
#else
#define LS_SIM_COUNTERS 4
#endif
#define LS_SIM_DROPS 6

// Pauses of the streams in each cycle, in 1/256: 0 is never, 255 is nearly always.
struct ls_sim_pauses {
    uint64_t seed;
    uint8_t source;
    uint8_t network;
    uint8_t host;
};

// Returns a simulation after its reset, with an empty table; NULL without memory. ls_sim_free ends it.
LS_SIM_API struct ls_sim *ls_sim_new(void);
LS_SIM_API void ls_sim_free(struct ls_sim *sim);

// Resets a simulation in which nothing is under way. The reset lasts for `more` cycles of the next call, so that this
// call offers frames and commands during the reset and directly after it. The counts of cycles go on.
LS_SIM_API void ls_sim_reset(struct ls_sim *sim, uint32_t more);

// Sets the clock of the leases. It does not advance by itself.
LS_SIM_API void ls_sim_set_now(struct ls_sim *sim, uint64_t now_ns);

// Executes `count` commands of 64 bytes (spec/rtl.toml). Returns the number of cycles until the last one took effect,
// or 0 after a fault, such as a barrier that did not complete or an order without a response: see ls_sim_fault.
LS_SIM_API uint64_t ls_sim_command(struct ls_sim *sim, const uint8_t *commands, size_t count);

// Sends `count` frames, one after the other in `frames`, with their lengths of 1 to LS_SIM_FRAME_BYTES_MAX bytes.
// Writes the verdicts, the lengths of what left, and its bytes; a dropped frame has length 0. `out` has as many
// bytes as the frames, which is enough. Without `pauses` there are none. Returns the number of cycles from the first
// beat in to the last beat out, or 0 after a fault: see ls_sim_fault.
LS_SIM_API uint64_t ls_sim_run(struct ls_sim *sim, const uint8_t *frames, const uint32_t *bytes, size_t count,
                    const struct ls_sim_pauses *pauses, uint8_t *out, uint32_t *out_bytes, uint8_t *verdicts);

// Returns the description of the last fault, such as a frame that never left or a broken rule of AXI-Stream; NULL if
// there was none.
LS_SIM_API const char *ls_sim_fault(const struct ls_sim *sim);

// Returns the number of cycles from the last beat of the last frame to its first beat out, in the last run.
LS_SIM_API uint64_t ls_sim_latency(const struct ls_sim *sim);

// Returns the number of cycles since the first reset.
LS_SIM_API uint64_t ls_sim_cycles(const struct ls_sim *sim);

#ifdef LS_SIM_NAME
#define ls_sim_watch LS_SIM_JOIN(LS_SIM_NAME, _watch)
#define ls_sim_events LS_SIM_JOIN(LS_SIM_NAME, _events)
#define ls_sim_trace_begin LS_SIM_JOIN(LS_SIM_NAME, _trace_begin)
#define ls_sim_trace_end LS_SIM_JOIN(LS_SIM_NAME, _trace_end)
#endif

// Event of a run. `index` is 1 for the last beat of a frame, or the number of a counter, drop reason or verdict.
enum ls_sim_event_kind {
    LS_SIM_EVENT_IN = 0,       // a beat was taken in
    LS_SIM_EVENT_COUNTED = 1,  // a decision was counted; `index`: counter of the service
    LS_SIM_EVENT_DROPPED = 2,  // a decision was counted; `index`: reason of the drop
    LS_SIM_EVENT_NETWORK = 3,  // a beat left to the network
    LS_SIM_EVENT_HOST = 4,     // a beat left to the host
    LS_SIM_EVENT_PASSED = 5,   // the frame has left, or was dropped; `index`: verdict
};

struct ls_sim_event {
    uint64_t cycle;  // since the reset
    uint32_t kind, index;
};

// Records the events of the next runs if `is_on` is 1. ls_sim_events copies at most `most` events of the last run to
// `out`, and returns their number.
LS_SIM_API void ls_sim_watch(struct ls_sim *sim, int is_on);
LS_SIM_API size_t ls_sim_events(const struct ls_sim *sim, struct ls_sim_event *out, size_t most);

#ifdef LS_SIM_TRACE
// Writes all signals from now on to an FST file. Cycle N after the call is from 4 N ns; its clock edge is at 4 N + 2
// ns. ls_sim_trace_end runs four more cycles and closes the file. Both return 0 if the file could not be written.
LS_SIM_API int ls_sim_trace_begin(struct ls_sim *sim, const char *path);
LS_SIM_API int ls_sim_trace_end(struct ls_sim *sim);
#endif

// Reads the counters of the service and of the drops, in the order of spec/.
LS_SIM_API void ls_sim_counters(const struct ls_sim *sim, uint64_t counters[LS_SIM_COUNTERS],
                                uint64_t drops[LS_SIM_DROPS]);

#ifdef LS_SIM_TRANSFER
// Sets the pauses of the record stream or of the response stream in each cycle, in 1/256; 256 stops it. A simulation
// begins without pauses. ls_sim_command waits for responses, so it fails with orders whose responses are stopped.
LS_SIM_API void ls_sim_pause_records(struct ls_sim *sim, uint16_t share);
LS_SIM_API void ls_sim_pause_responses(struct ls_sim *sim, uint16_t share);

// Moves up to `most` records (128 bytes each) or responses (64 bytes each) to `out`; returns their number. Records that
// are under way are given the time to arrive.
LS_SIM_API size_t ls_sim_take_records(struct ls_sim *sim, uint8_t *out, size_t most);
LS_SIM_API size_t ls_sim_take_responses(struct ls_sim *sim, uint8_t *out, size_t most);
#endif

#ifdef LS_SIM_WINDOW
// Reads or writes a word of the AXI4-Lite window, in a build with LS_SIM_WINDOW (scripts/rtl-sim.sh window). Returns
// the response of the bus (0: OKAY, 2: SLVERR), or -1 if there was none. ls_sim_set_now and ls_sim_counters use the
// window as well.
LS_SIM_API int ls_sim_read(struct ls_sim *sim, uint32_t address, uint32_t *data);
LS_SIM_API int ls_sim_write(struct ls_sim *sim, uint32_t address, uint32_t data);
#endif

// Commands that are sent while frames pass, and the times of what happens, in cycles since the reset.
struct ls_sim_mixed {
    const uint8_t *commands;
    size_t commands_count;
    uint8_t commands_pause;    // pauses between commands, in 1/256
    uint64_t *frame_in;        // last beat in, for each frame
    uint64_t *frame_out;       // last beat out, for each frame
    uint64_t *command_done;    // when each command was taken in; for a barrier, when it was complete
};

// Sends frames as ls_sim_run does and commands at the same time. Ends when all frames have left and all commands are
// done. Barriers have different indexes.
LS_SIM_API uint64_t ls_sim_run_mixed(struct ls_sim *sim, const uint8_t *frames, const uint32_t *bytes, size_t count,
                    const struct ls_sim_pauses *pauses, uint8_t *out, uint32_t *out_bytes, uint8_t *verdicts,
                    const struct ls_sim_mixed *mixed);

// External memory, in a build with LS_SIM_MEMORY (scripts/rtl-sim.sh memory).
#define LS_SIM_MEMORY_COUNTERS 5

struct ls_sim_memory {
    uint64_t seed;
    uint32_t latency_min, latency_max;  // cycles from an address to its data or acknowledgement, 2 to 2000
    uint32_t reads_max;                 // reads in flight
    uint8_t pauses;                     // of all channels in each cycle, in 1/256
    uint8_t read_errors, write_errors;  // in 1/256
    uint8_t splits;                     // 1: the halves of a line are read and written at different times
};

// Sets the properties of the memory. Before the first call they are: a latency of 80 to 400 cycles, 256 reads, pauses
// of 16/256, no errors, and `splits` of 1.
LS_SIM_API void ls_sim_memory_set(struct ls_sim *sim, const struct ls_sim_memory *memory);

// Reads the counters of memory_counter_e, and the largest number of reads in flight since ls_sim_memory_set.
LS_SIM_API void ls_sim_memory_counters(const struct ls_sim *sim, uint64_t counters[LS_SIM_MEMORY_COUNTERS],
                                       uint64_t *most_reads);

#ifdef __cplusplus
}
#endif
