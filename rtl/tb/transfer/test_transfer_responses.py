# SPDX-License-Identifier: Apache-2.0
"""Responses of the NIC of `transfer` that the host takes late or not at all, while requests of sessions pass.

The simulation itself checks that a response does not change while it waits.
"""

import pathlib
import random
import struct
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from bench_transfer import Clients, filled  # noqa: E402
from lineside_rtl import Pauses, command  # noqa: E402
from lineside_transfer import (  # noqa: E402
    RESPONSE,
    RESPONSE_NAMES,
    SESSION_NAMES,
    SESSION_RESPONSE,
    SESSIONS,
)

STOPPED = 256  # pauses in 1/256
REQUESTS = 12
ACCOUNT = (1).to_bytes(16, "big")


def order(kind: str, index: int) -> bytes:
    """An order that changes nothing."""
    return command(f"transfer_{kind}", index, 0, index % SESSIONS, account=ACCOUNT)


def responses(nic, kinds: list[str]) -> list[dict]:
    """Responses to orders of these kinds, in this order."""
    taken = [one["beat"] for one in nic.responses("64s", ["beat"])]
    assert len(taken) == len(kinds)
    forms = [(SESSION_RESPONSE, SESSION_NAMES) if kind == "session" else (RESPONSE, RESPONSE_NAMES) for kind in kinds]
    return [
        dict(zip(names, struct.unpack(form, beat), strict=True))
        for (form, names), beat in zip(forms, taken, strict=True)
    ]


@pytest.mark.parametrize("kinds", [["session"], ["session", "session"], ["read", "session"]], ids=" ".join)
def test_a_response_that_is_not_taken_stays_as_it_is_and_stops_no_request(kinds):
    nic, clients = filled(), Clients()
    nic.responses()
    nic.pause_responses(STOPPED)
    nic.run_mixed([], [order(kind, at) for at, kind in enumerate(kinds)])
    left = nic.run([clients.transfer(at % SESSIONS) for at in range(REQUESTS)])
    assert all(one.verdict == "reply" for one in left)
    assert len(nic.records()) == REQUESTS
    assert not nic.responses()
    nic.pause_responses(0)
    nic.command()  # waits for all responses
    got = responses(nic, kinds)
    assert [one["index"] for one in got] == [*range(len(kinds))]
    # Orders after the first one about a session, or after one of the store, begin when its response was taken.
    executed = [0, *[REQUESTS] * (len(kinds) - 1)]
    assert [one["records"] for one in got if "token" in one] == executed[-kinds.count("session") :]
    nic.close()


@pytest.mark.parametrize("share", [0, 128, 240])
def test_responses_keep_the_order_of_the_commands(share):
    chance = random.Random(share)
    nic, clients = filled(), Clients()
    nic.responses()
    nic.pause_responses(share)
    executed = 0
    for number in range(20):
        kinds = [chance.choice(["session", "session", "read", "claim", "release"]) for _ in range(40)]
        # Claims and releases are about an account that no request names.
        frames = [clients.transfer(chance.randrange(SESSIONS - 1) + 1) for _ in range(60)]
        commands = [order(kind, at) for at, kind in enumerate(kinds)]
        left, _ = nic.run_mixed(frames, commands, Pauses(number + 1, 0, 0, 0), chance.choice([0, 128, 230]))
        assert all(one.verdict == "reply" for one in left)
        nic.command()
        got = responses(nic, kinds)
        assert [one["index"] for one in got] == [*range(len(kinds))]
        counts = [one["records"] for one in got]
        assert counts == sorted(counts) and counts[0] >= executed
        executed += len(frames)
        assert counts[-1] <= executed and len(nic.records()) == len(frames)
    nic.close()
