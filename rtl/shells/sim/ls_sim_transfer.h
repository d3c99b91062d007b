// SPDX-License-Identifier: Apache-2.0
//
// Streams of ls_transfer_core that ls_spv_core does not have: sinks of records and of responses, with the check that a
// waiting beat does not change. Included by ls_sim.cpp in a build with LS_SIM_TRANSFER.

#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace ls {

// Bytes that one stream has given out, and its waiting beat.
struct Sink {
    static constexpr size_t kBytes = 64;
    std::vector<uint8_t> bytes;
    bool was_waiting = false, was_last = false;
    uint8_t waiting[kBytes];

    // Returns whether the stream has kept the rules.
    bool edge(bool valid, bool ready, bool last, const void *data) {
        const bool holds = !was_waiting || (valid && last == was_last && !memcmp(waiting, data, kBytes));
        if (valid && ready) bytes.insert(bytes.end(), (const uint8_t *)data, (const uint8_t *)data + kBytes);
        was_waiting = valid && !ready;
        was_last = last;
        memcpy(waiting, data, kBytes);
        return holds;
    }
    // Moves up to `most` entries of `size` bytes to `out`.
    size_t take(uint8_t *out, size_t size, size_t most) {
        const size_t whole = bytes.size() / size, count = whole < most ? whole : most;
        memcpy(out, bytes.data(), count * size);
        bytes.erase(bytes.begin(), bytes.begin() + count * size);
        return count;
    }
};

struct Streams {
    // First and last code of the commands that have a response, from spec/rtl.toml.
    static constexpr uint32_t kFirstOrder = 17, kLastOrder = 24;
    static constexpr size_t kRecordBytes = 128, kResponseBytes = 64;
    Sink records, responses;
    uint64_t orders = 0, answered = 0;             // since the reset
    uint16_t record_pause = 0, response_pause = 0;  // of the streams in each cycle, in 1/256; 256: stopped
    uint64_t random = 0x9e3779b97f4a7c15;
    const char *fault = nullptr;

    // Forgets what was given out before the reset.
    void reset() {
        records = responses = Sink{};
        orders = answered = 0;
    }
    template <typename Top>
    void drive(Top &top) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        top.m_axis_record_tready = (random >> 56) >= record_pause;
        top.m_axis_response_tready = (random >> 40 & 0xff) >= response_pause;
    }
    template <typename Top>
    void edge(Top &top) {
        uint32_t op;
        memcpy(&op, &top.s_command_tdata, sizeof(op));
        if (top.s_command_tvalid && top.s_command_tready && op >= kFirstOrder && op <= kLastOrder) orders++;
        answered += top.m_axis_response_tvalid && top.m_axis_response_tready;
        if (!records.edge(top.m_axis_record_tvalid, top.m_axis_record_tready, top.m_axis_record_tlast,
                          &top.m_axis_record_tdata))
            fault = "a record changed before it was accepted";
        if (!responses.edge(top.m_axis_response_tvalid, top.m_axis_response_tready, top.m_axis_response_tlast,
                            &top.m_axis_response_tdata))
            fault = "a response changed before it was accepted";
    }
};

}  // namespace ls
