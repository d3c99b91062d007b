// SPDX-License-Identifier: Apache-2.0
//
// Model of external memory with an AXI4 port of 512 bits, for the simulated NIC. Reads and writes take a random number
// of cycles, a bounded number of reads is in flight, and data come in the order of the addresses, as for one ID.
//
// The model allows itself everything that AXI4 allows: a write changes the memory at any time between its acceptance
// and its acknowledgement, a read sees the memory at any time between its acceptance and its data, and both do so
// separately for each 32 bytes.

#pragma once
#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "ls_sim.h"

namespace ls {

constexpr size_t kLineBytes = 64, kHalfBytes = 32, kWheelSlots = 4096;

class Memory {
  public:
    explicit Memory(unsigned line_bits) : bytes_(kLineBytes << line_bits), wheel_(kWheelSlots) {
        // Pages of zeros that take no memory until they are written.
        void *map = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        data_ = map == MAP_FAILED ? nullptr : static_cast<uint8_t *>(map);
    }
    ~Memory() {
        if (data_) munmap(data_, bytes_);
    }
    Memory(const Memory &) = delete;
    Memory &operator=(const Memory &) = delete;

    bool exists() const { return data_ != nullptr; }
    const char *fault() const { return fault_; }
    uint64_t most_reads() const { return most_reads_; }
    void configure(const ls_sim_memory &config) {
        config_ = config;
        state_ = config.seed | 1;
        most_reads_ = 0;
    }

    // Drives the signals of the memory for the next cycle.
    template <typename Top>
    void drive(Top &top) {
        top.m_axi_arready = reads_.size() < config_.reads_max && !chance(config_.pauses);
        top.m_axi_awready = addresses_.size() < 8 && !chance(config_.pauses);
        top.m_axi_wready = lines_.size() < 8 && !chance(config_.pauses);
        // Data and acknowledgements that are offered stay offered.
        if (!top.m_axi_rvalid || read_moved_) {
            top.m_axi_rvalid = !reads_.empty() && reads_.front().due <= now_ && !chance(config_.pauses);
            if (top.m_axi_rvalid) {
                const Read &read = reads_.front();
                memcpy(&top.m_axi_rdata, read.data[read.beat], kLineBytes);
                top.m_axi_rresp = read.is_error ? 2 : 0;
                top.m_axi_rlast = read.beat + 1 == read.beats;
            }
        }
        if (!top.m_axi_bvalid || write_moved_) {
            top.m_axi_bvalid = !writes_.empty() && writes_.front().due <= now_ && !chance(config_.pauses);
            if (top.m_axi_bvalid) top.m_axi_bresp = writes_.front().is_error ? 2 : 0;
        }
    }

    // Takes part in the clock edge that ends this cycle.
    template <typename Top>
    void edge(Top &top) {
        check(top);
        auto &slot = wheel_[now_ % kWheelSlots];
        for (const Event &event : slot) happen(event);
        slot.clear();
        read_moved_ = top.m_axi_rvalid && top.m_axi_rready;
        if (read_moved_ && ++reads_.front().beat == reads_.front().beats) {
            reads_.pop_front();
            first_read_++;
        }
        write_moved_ = top.m_axi_bvalid && top.m_axi_bready;
        if (write_moved_) {
            writes_.pop_front();
            first_write_++;
        }
        if (top.m_axi_arvalid && top.m_axi_arready) accept_read(top.m_axi_araddr, top.m_axi_arlen + 1u);
        if (top.m_axi_awvalid && top.m_axi_awready) addresses_.push_back(top.m_axi_awaddr);
        if (top.m_axi_wvalid && top.m_axi_wready) {
            lines_.emplace_back();
            memcpy(lines_.back().bytes, &top.m_axi_wdata, kLineBytes);
        }
        if (!addresses_.empty() && !lines_.empty()) accept_write();
        now_++;
    }

  private:
    struct Line {
        uint8_t bytes[kLineBytes];
    };
    struct Read {
        uint64_t address, due;
        unsigned beats, beat;
        bool is_error;
        uint8_t data[4][kLineBytes];
    };
    struct Write {
        uint64_t address, due;
        bool is_error;
        Line line;
    };
    // One half of a line is read or written.
    struct Event {
        bool is_write;
        uint64_t number;
        unsigned beat, half;
    };
    // A channel's offer, which must stay until it is accepted.
    struct Offer {
        bool waits = false;
        uint8_t bytes[kLineBytes + 1] = {};
        bool holds(bool valid, bool ready, const void *payload, size_t size, unsigned more) {
            const bool same = !waits || (valid && !memcmp(bytes, payload, size) && bytes[kLineBytes] == more);
            waits = valid && !ready;
            memcpy(bytes, payload, size);
            bytes[kLineBytes] = static_cast<uint8_t>(more);
            return same;
        }
    };

    uint64_t random() {
        state_ ^= state_ >> 12;
        state_ ^= state_ << 25;
        state_ ^= state_ >> 27;
        return state_ * 0x2545f4914f6cdd1dULL >> 16;
    }
    bool chance(uint8_t share) { return share && (random() & 255) < share; }
    uint64_t between(uint64_t first, uint64_t last) { return first + random() % (last - first + 1); }
    // Time of an answer: random, and not before that of the request ahead.
    uint64_t due_after(uint64_t ahead) {
        const uint64_t due = now_ + between(config_.latency_min, config_.latency_max);
        return due > ahead ? due : ahead;
    }
    void schedule(uint64_t at, Event event) { wheel_[at % kWheelSlots].push_back(event); }

    void accept_read(uint64_t address, unsigned beats) {
        if (beats > 4 || beats == 3 || address % (kLineBytes * beats) || address + kLineBytes * beats > bytes_) {
            fault_ = "a read has a wrong length, or is not aligned or outside the memory";
            return;
        }
        last_read_due_ = due_after(last_read_due_);
        const uint64_t number = first_read_ + reads_.size();
        reads_.push_back({address, last_read_due_, beats, 0, chance(config_.read_errors), {}});
        if (reads_.size() > most_reads_) most_reads_ = reads_.size();
        for (unsigned beat = 0; beat < beats; beat++) {
            const uint64_t at = between(now_ + 1, last_read_due_ - 1);
            for (unsigned half = 0; half < 2; half++)
                schedule(config_.splits ? between(now_ + 1, last_read_due_ - 1) : at, {false, number, beat, half});
        }
    }

    void accept_write() {
        const uint64_t address = addresses_.front();
        if (address % kLineBytes || address + kLineBytes > bytes_) {
            fault_ = "a write is not aligned, or outside the memory";
            return;
        }
        last_write_due_ = due_after(last_write_due_);
        const uint64_t number = first_write_ + writes_.size();
        writes_.push_back({address, last_write_due_, chance(config_.write_errors), lines_.front()});
        addresses_.pop_front();
        lines_.pop_front();
        const uint64_t at = between(now_ + 1, last_write_due_ - 1);
        for (unsigned half = 0; half < 2; half++) {
            // Writes of one ID keep their order.
            uint64_t time = config_.splits ? between(now_ + 1, last_write_due_ - 1) : at;
            if (time < last_change_[half]) time = last_change_[half];
            last_change_[half] = time;
            schedule(time, {true, number, 0, half});
        }
    }

    void happen(const Event &event) {
        const size_t half = event.half * kHalfBytes;
        if (event.is_write) {
            Write &write = writes_[event.number - first_write_];
            if (!write.is_error) memcpy(data_ + write.address + half, write.line.bytes + half, kHalfBytes);
        } else {
            Read &read = reads_[event.number - first_read_];
            memcpy(read.data[event.beat] + half, data_ + read.address + event.beat * kLineBytes + half, kHalfBytes);
        }
    }

    template <typename Top>
    void check(Top &top) {
        const bool holds = read_offer_.holds(top.m_axi_arvalid, top.m_axi_arready, &top.m_axi_araddr, 8,
                                             top.m_axi_arlen) &
                           write_offer_.holds(top.m_axi_awvalid, top.m_axi_awready, &top.m_axi_awaddr, 8,
                                              top.m_axi_awlen) &
                           line_offer_.holds(top.m_axi_wvalid, top.m_axi_wready, &top.m_axi_wdata, kLineBytes,
                                             top.m_axi_wlast);
        if (!holds) fault_ = "an address or a line changed before the memory accepted it";
        if ((top.m_axi_arvalid && (top.m_axi_arsize != 6 || top.m_axi_arburst != 1)) ||
            (top.m_axi_awvalid && (top.m_axi_awsize != 6 || top.m_axi_awburst != 1 || top.m_axi_awlen)) ||
            (top.m_axi_wvalid && (top.m_axi_wstrb != ~0ULL || !top.m_axi_wlast)))
            fault_ = "a burst has a wrong size, type or length";
    }

    size_t bytes_;
    uint8_t *data_;
    std::vector<std::vector<Event>> wheel_;
    ls_sim_memory config_{1, 80, 400, 256, 16, 0, 0, 1};
    uint64_t state_ = 1, now_ = 0;
    uint64_t last_read_due_ = 0, last_write_due_ = 0, last_change_[2] = {0, 0};
    uint64_t first_read_ = 0, first_write_ = 0;  // numbers of the first entries in the queues
    uint64_t most_reads_ = 0;
    std::deque<Read> reads_;
    std::deque<Write> writes_;
    std::deque<uint64_t> addresses_;
    std::deque<Line> lines_;
    bool read_moved_ = false, write_moved_ = false;
    Offer read_offer_, write_offer_, line_offer_;
    const char *fault_ = nullptr;
};

}  // namespace ls
