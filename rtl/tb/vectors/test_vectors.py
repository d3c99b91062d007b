# SPDX-License-Identifier: Apache-2.0
"""Runs every vector of vectors/spv through the simulated NIC: verdict, every byte, and every counter."""

import pathlib
import sys
import tomllib

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from lineside_rtl import ROOT, Nic, Pauses, SpvHost, has_external_memory  # noqa: E402

# Operations that the RTL answers; it forwards other native requests to the host (`rtl` in spec/spv.toml).
SPEC = tomllib.loads((ROOT / "spec/spv.toml").read_text())
ANSWERED = {
    op["code"]
    for op in SPEC["op"]
    if "rtl" in op.get("fast_path", []) and not (op["name"] == "roots" and has_external_memory())
}
FILES = sorted((ROOT / "vectors/spv").glob("*.toml"))


def octets(text: str) -> bytes:
    return bytes.fromhex("".join(text.split()))


def expected(vector):
    """Verdict, frame and counter that the RTL must give."""
    request, trailer = octets(vector["request"]), octets(vector.get("trailer", ""))
    frame = octets(vector["headers"]) + request + trailer
    verdict, counter = vector["fastpath"], vector.get("counts")
    if verdict.startswith("drop"):
        return frame, "drop", b"", verdict
    is_native = len(request) != 32 and request[:2] == b"LS"
    # A counted native request of another operation goes to the host.
    if counter and is_native and request[3] not in ANSWERED:
        verdict, counter = "forward", "forwarded_native"
    if verdict == "forward":
        return frame, "forward", frame, counter
    return frame, "reply", octets(vector["reply_headers"]) + octets(vector["reply"]) + trailer, counter


def nic_of(file) -> Nic:
    nic = Nic()
    state, own = file["state"], file["endpoint"]
    host = SpvHost(nic, paper_format=state["paper_format"])
    host.endpoint(octets(own["mac"]), own["addresses"], own["broadcast"], state["loopback"])
    for block in file["block"]:
        host.block(
            octets(block["hash"]), octets(block["root"]), block["height"], [octets(txid) for txid in block["fastpath"]]
        )
    host.tip(octets(file["tip"]["hash"]), file["tip"]["height"], 2 if state["chain"] == "at rest" else 3)
    from lineside_rtl import register

    nic.set_now(1_000_000)
    nic.command(register("spv_lease_until_ns", 1 << 62 if state["lease"] == "valid" else 1_000_000))
    return nic


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_vector(path):
    file = tomllib.loads(path.read_text())
    nic = nic_of(file)
    for vector in file["vector"]:
        frame, verdict, left, counter = expected(vector)
        before = nic.counters()
        out = nic.run([frame])[0]
        after = nic.counters()
        risen = {name: after[name] - before[name] for name in after if after[name] != before[name]}
        assert out.verdict == verdict, vector["what"]
        assert out.frame == left, vector["what"]
        assert risen == ({counter: 1} if counter else {}), vector["what"]
    nic.close()


def test_frames_around_the_longest():
    """A frame of more than 24 beats goes to the host unchanged, also one that would be answered if it were shorter."""
    file = tomllib.loads((ROOT / "vectors/spv/frames.toml").read_text())
    nic = nic_of(file)
    request, _, reply, _ = next(one for one in map(expected, file["vector"]) if one[1] == "reply")
    sent, wanted = [], []
    for length in [24 * 64 - 1, 24 * 64, 24 * 64 + 1, 25 * 64, 26 * 64, 9000, 100, 24 * 64 + 1, len(request)]:
        trailer = bytes(at % 251 for at in range(length - len(request)))
        sent.append(request + trailer)
        wanted.append(("reply", reply + trailer) if length <= 24 * 64 else ("forward", request + trailer))
    for pauses in [None, Pauses(3, 100, 100, 100)]:
        assert [(one.verdict, one.frame) for one in nic.run(sent * 10, pauses)] == wanted * 10
    nic.close()


@pytest.mark.parametrize("pauses", [None, (0, 0, 0), (128, 0, 0), (0, 200, 0), (0, 0, 200), (60, 128, 128)])
def test_all_vectors_back_to_back_in_order(pauses):
    """All frames of a file 20 times, one after the other without a gap, with pauses of source and sinks."""
    for path in FILES:
        file = tomllib.loads(path.read_text())
        nic = nic_of(file)
        vectors = [expected(vector) for vector in file["vector"]] * 20
        chosen = Pauses(7, *pauses) if pauses else None
        left = nic.run([vector[0] for vector in vectors], chosen)
        assert [(one.verdict, one.frame) for one in left] == [(vector[1], vector[2]) for vector in vectors], path.stem
        counts = nic.counters()
        for name in counts:
            assert counts[name] == sum(vector[3] == name for vector in vectors), (path.stem, name)
        nic.close()
