// SPDX-License-Identifier: Apache-2.0
//
// AXI4-Lite master of the simulated NIC with its window. Included by ls_sim.cpp in a build with LS_SIM_WINDOW.

#pragma once
#include <cstdint>

namespace ls {

// Addresses of spec/rtl.toml.
constexpr uint32_t kClockAt = 0x20, kClockStepAt = 0x28, kDropsAt = 0x100, kCountersAt = 0x300;
// Cycles that a request may take.
constexpr int kWindowPatience = 1000;

template <typename Top>
void window_idle(Top &top) {
    top.s_axil_awvalid = 0;
    top.s_axil_wvalid = 0;
    top.s_axil_bready = 0;
    top.s_axil_arvalid = 0;
    top.s_axil_rready = 0;
}

// Reads a word. Returns the response of the bus, or -1 if none came.
template <typename Sim>
int window_read(Sim &sim, uint32_t address, uint32_t &data) {
    auto &top = sim.top;
    int response = -1;
    top.s_axil_araddr = address;
    top.s_axil_arvalid = 1;
    top.s_axil_rready = 1;
    for (int i = 0; i < kWindowPatience && response < 0; i++) {
        sim.settle();
        const bool taken = top.s_axil_arvalid && top.s_axil_arready;
        if (top.s_axil_rvalid) {
            response = top.s_axil_rresp;
            data = top.s_axil_rdata;
        }
        sim.edge();
        if (taken) top.s_axil_arvalid = 0;
    }
    window_idle(top);
    return response;
}

// Writes a word. Returns the response of the bus, or -1 if none came.
template <typename Sim>
int window_write(Sim &sim, uint32_t address, uint32_t data) {
    auto &top = sim.top;
    int response = -1;
    top.s_axil_awaddr = address;
    top.s_axil_wdata = data;
    top.s_axil_wstrb = 15;
    top.s_axil_awvalid = 1;
    top.s_axil_wvalid = 1;
    top.s_axil_bready = 1;
    for (int i = 0; i < kWindowPatience && response < 0; i++) {
        sim.settle();
        const bool address_taken = top.s_axil_awvalid && top.s_axil_awready;
        const bool data_taken = top.s_axil_wvalid && top.s_axil_wready;
        if (top.s_axil_bvalid) response = top.s_axil_bresp;
        sim.edge();
        if (address_taken) top.s_axil_awvalid = 0;
        if (data_taken) top.s_axil_wvalid = 0;
    }
    window_idle(top);
    return response;
}

// Reads a counter, the low word first. Sets the fault of the simulation if the bus refuses.
template <typename Sim>
uint64_t window_counter(Sim &sim, uint32_t address) {
    uint32_t low = 0, high = 0;
    if (window_read(sim, address, low) || window_read(sim, address + 4, high))
        sim.fault = "the window refused a read of a counter";
    return static_cast<uint64_t>(high) << 32 | low;
}

// Stops the clock of the leases at a time.
template <typename Sim>
void window_set_clock(Sim &sim, uint64_t now_ns) {
    if (window_write(sim, kClockStepAt, 0) || window_write(sim, kClockAt, static_cast<uint32_t>(now_ns)) ||
        window_write(sim, kClockAt + 4, static_cast<uint32_t>(now_ns >> 32)))
        sim.fault = "the window refused a write of the clock";
    for (int i = 0; i < 4; i++) {
        sim.settle();
        sim.edge();
    }
}

}  // namespace ls
