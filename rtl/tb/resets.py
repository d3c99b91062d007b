# SPDX-License-Identifier: Apache-2.0
"""Frames and commands that are offered during a reset and directly after it, for the tests of both NICs."""

from lineside_rtl import Nic, Pauses, command

# Cycles of the reset in which frames and commands are offered already.
DURING = [0, 1, 2, 3, 12]
# Commands before the barrier, one in each cycle.
BEFORE = [1, 4, 6, 10, 30]
FRAMES = 40
SLOW = 248  # pauses of a sink in 1/256


def check_barrier(nic: Nic, during: int, before: int, ignored: bytes):
    """Fails if a barrier completes before a frame has left that came in between the reset and the barrier.

    Frames of one beat come in from the first cycle in which the NIC takes them, and leave slowly, so that a barrier
    which forgets the last ones of them completes too early. `ignored` is a command that changes nothing.
    """
    # The counts of frames do not begin at 0 by themselves.
    nic.run([bytes(60)] * (before + during))
    nic.reset(during)
    for number in (1, 2):
        frames = [bytes([number, at]) + bytes(58) for at in range(FRAMES)]
        commands = [ignored] * before + [command("barrier", number)]
        left, times = nic.run_mixed(frames, commands, Pauses(number, 0, 0, SLOW))
        assert [(one.verdict, one.frame) for one in left] == [("forward", frame) for frame in frames]
        # The barrier was taken in after the command before it.
        *_, taken, done = times.command_done
        came = [out for at, out in zip(times.frame_in, times.frame_out, strict=True) if at <= taken]
        assert len(came) >= min(before, FRAMES) - 2
        assert all(out <= done for out in came), f"barrier {number} completed before a frame that came before it"
