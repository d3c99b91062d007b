"""Proofs and chains of headers, against vectors/spv-proof and against chains made here."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional

import pytest
from blocks import mine
from vectors import raw, vectors

from lineside import LinesideError, spv
from lineside.header_chain import (
    RETARGET_INTERVAL,
    Ancestor,
    ChainError,
    HeaderChain,
    UnknownParent,
    real_bits_after,
    required_bits,
    retarget,
)
from lineside.spv_proof import (
    Header,
    Network,
    ProofError,
    ProofReason,
    TransactionProof,
    WitnessProof,
    depth_of,
    display,
)


def judged(vector: dict[str, Any]) -> int:
    """Returns the number of the reason for which a vector's proof is refused, or 0."""
    header = Header.from_bytes(raw(vector["header"]))
    path = tuple(raw(hash) for hash in vector["path"])
    count, index, network = vector["transaction_count"], vector["index"], Network(vector["network"])
    try:
        if "wtxid" in vector:
            wtxid = raw(vector["wtxid"])
            coinbase_path = tuple(raw(hash) for hash in vector["coinbase_path"])
            coinbase, reserved = raw(vector["coinbase"]), raw(vector["witness_reserved"])
            witness = WitnessProof(
                wtxid, header, vector["height"], count, index, path, coinbase, coinbase_path, reserved
            )
            witness.verify(network, wtxid)
        else:
            proof = TransactionProof(header, vector["height"], count, index, path)
            if "raw" in vector:
                proof.verify_transaction(network, raw(vector["raw"]))
            else:
                proof.verify(network, raw(vector["txid"]))
    except ProofError as error:
        return int(error.reason)
    return 0


def test_proofs_are_judged_as_the_vectors_say() -> None:
    codes, depths = set(), set()
    for vector in vectors("spv-proof/good") + vectors("spv-proof/bad") + vectors("spv-proof/witness"):
        found = judged(vector)
        assert found == vector["code"], vector["what"]
        name = "ok" if found == 0 else ProofReason(found).name.lower().replace("_", " ")
        assert name == vector["expect"], vector["what"]
        codes.add(found)
        if found == 0 and "wtxid" not in vector:
            depths.add(depth_of(vector["transaction_count"]))
    assert codes == set(range(16)), "a reason has no vector"
    assert depths == set(range(13))


def test_headers_have_the_hash_target_and_work_of_the_vectors() -> None:
    for vector in vectors("spv-proof/headers"):
        header = Header.from_bytes(raw(vector["header"]))
        assert header.to_bytes() == raw(vector["header"])
        assert header.hash().hex() == vector["hash"], vector["what"]
        assert f"{header.target() or 0:064x}" == vector["target"], vector["what"]
        assert f"{header.work():064x}" == vector["work"], vector["what"]
        try:
            header.check_proof_of_work(Network(vector["network"]))
            code = 0
        except ProofError as error:
            code = int(error.reason)
        assert code == vector["code"], vector["what"]


def test_targets_along_chains_are_those_of_the_vectors() -> None:
    for vector in vectors("spv-proof/difficulty"):
        network = Network(vector["network"])
        if "timespan" in vector:
            assert retarget(network, vector["bits"], vector["timespan"]) == vector["after"], vector["what"]
            continue
        genesis = network.genesis()
        chain = [Ancestor(genesis.time, genesis.bits, genesis.bits)]
        changes = dict(zip(vector["changes"][::2], vector["changes"][1::2]))
        for gap, count in zip(vector["gaps"][::2], vector["gaps"][1::2]):
            for _ in range(count):
                height, parent = len(chain), chain[-1]
                time = parent.time + gap
                bits = required_bits(network, height - 1, time, chain.__getitem__)
                assert bits == changes.pop(height, parent.bits), f"{vector['what']}, height {height}"
                chain.append(Ancestor(time, bits, real_bits_after(network, height, bits, parent.real_bits)))
        assert not changes and len(chain) > 8000, vector["what"]


def test_every_genesis_has_its_proof_of_work() -> None:
    for network in Network:
        network.genesis().check_proof_of_work(network)
    shown = display(Network.MAINNET.genesis().hash())
    assert shown == "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f"


def branch(parent: Header, count: int, root: int, first_time: Optional[int] = None) -> list[Header]:
    """Mines headers of regtest."""
    headers = []
    for step in range(count):
        time = (first_time or parent.time + 600) + 600 * step
        parent = mine(Header(4, parent.hash(), bytes([root]) * 32, time, parent.bits, 0))
        headers.append(parent)
    return headers


NOW = 1_400_000_000


def test_the_chain_of_most_work_wins_and_is_found_again_in_the_file(tmp_path: Path) -> None:
    genesis = Network.REGTEST.genesis()
    short, long = branch(genesis, 3, 1), branch(genesis, 4, 2)
    with HeaderChain("regtest", tmp_path) as chain:
        assert chain.accept(short, NOW) == 3
        assert chain.tip.hash == short[-1].hash()
        assert chain.accept(long[:3], NOW) == 3
        assert chain.tip.hash == short[-1].hash(), "of equal work, the first stays"
        assert chain.accept([*long, *short], NOW) == 1
        assert (chain.tip.height, chain.tip.hash) == (4, long[-1].hash())
        assert chain.tip.work == 5 * genesis.work()
        assert chain.height_of(short[0].hash()) is None
        assert chain.height_of(long[1].hash()) == 2
        assert [chain.confirmations(height) for height in (0, 4, 5)] == [5, 1, 0]
        with pytest.raises(ChainError, match="another process"):
            HeaderChain("regtest", tmp_path)
    file = tmp_path / "headers.dat"
    whole = file.read_bytes()
    with HeaderChain("regtest", tmp_path) as chain:
        assert (chain.tip.height, chain.tip.hash) == (4, long[-1].hash())
    with pytest.raises(ChainError, match="does not hold headers of mainnet"):
        HeaderChain("mainnet", tmp_path)
    # A power cut leaves a torn last header, then zeros.
    file.write_bytes(whole[:-30] + bytes(30 + 160))
    with HeaderChain("regtest", tmp_path) as chain:
        assert chain.tip.height == 3
        assert chain.accept(long, NOW) == 1
    assert file.read_bytes() == whole
    file.write_bytes(whole[:100] + b"x" + whole[101:])
    with pytest.raises(ChainError, match="stored header 1"):
        HeaderChain("regtest", tmp_path)


def test_a_header_that_breaks_a_rule_is_refused_and_those_before_it_stay() -> None:
    genesis = Network.REGTEST.genesis()
    good = branch(genesis, 12, 1)
    chain = HeaderChain("regtest", checkpoints={5: good[4].hash()})
    with pytest.raises(UnknownParent):
        chain.accept(good[1:], NOW)
    assert chain.accept(good, NOW) == 12
    tip = good[-1]

    def after(**fields: Any) -> Header:
        return mine(Header(4, tip.hash(), bytes(32), tip.time + 600, tip.bits, 0)._replace(**fields))

    with pytest.raises(ChainError, match="the median of the 11 headers"):
        chain.accept([after(time=good[-6].time)], NOW)
    with pytest.raises(ChainError, match="more than two hours"):
        chain.accept([after(time=NOW + 7201)], NOW)
    with pytest.raises(ChainError, match="the network's rule gives 207fffff"):
        chain.accept([after(bits=0x207FFFFE)], NOW)
    with pytest.raises(ProofError, match="not allow"):
        chain.accept([after(bits=0x217FFFFF)], NOW)
    unmined = next(h for h in (after()._replace(nonce=n) for n in range(1000)) if h.hash()[-1] >= 0x80)
    with pytest.raises(ProofError, match="above the header's target"):
        chain.accept([unmined], NOW)
    with pytest.raises(ChainError, match="branches off below the checkpoint"):
        chain.accept(branch(good[2], 1, 9), NOW)
    with pytest.raises(ChainError, match="the checkpoint at this height"):
        HeaderChain("regtest", checkpoints={2: bytes(32)}).accept(good, NOW)
    assert chain.accept([after(time=good[-6].time + 1)], NOW) == 1
    with pytest.raises(ChainError, match="limit"):
        HeaderChain("regtest", max_headers=4).accept(good, NOW)


def test_a_side_chain_over_a_retarget_finds_its_ancestors() -> None:
    # Simnet has the difficulty rules of testnet3, from a target that is easy to mine.
    network = Network.SIMNET
    chain = HeaderChain(network)
    headers = [network.genesis()]
    for _ in range(1, RETARGET_INTERVAL):
        parent = headers[-1]
        headers.append(mine(Header(4, parent.hash(), bytes(32), parent.time + 500, parent.bits, 0)))
    chain.accept(headers[1:], NOW + 10**8)
    parent = headers[-1]
    bits = retarget(network, parent.bits, parent.time - headers[0].time)
    assert bits < parent.bits, "the blocks came too fast, so the target is lower"
    first = [mine(Header(4, parent.hash(), bytes([root]) * 32, parent.time + 500, bits, 0)) for root in (1, 2)]
    assert chain.accept(first, NOW + 10**8) == 2
    assert chain.tip.hash == first[0].hash()
    second = mine(Header(4, first[1].hash(), bytes(32), first[1].time + 500, bits, 0))
    assert chain.accept([second], NOW + 10**8) == 1
    assert chain.tip.hash == second.hash()
    late = Header(4, second.hash(), bytes(32), second.time + 1201, bits, 0)
    with pytest.raises(ChainError, match="207fffff"):
        chain.accept([mine(late)], NOW + 10**8)
    assert chain.accept([mine(late._replace(bits=0x207FFFFF))], NOW + 10**8) == 1


def synced(chain: HeaderChain, served: list[Header], most: int = 200) -> int:
    """Syncs a chain with a server that has these headers from height 1 on; fails if the server is asked too often."""
    steps = spv.Requests().sync(chain)
    call: Any = next(steps)
    try:
        for _ in range(most):
            start = int.from_bytes(call.body[:4], "big")
            call = steps.send(spv.Answer(served[start - 1 : start + 13], len(served), bytes(32)))
    except StopIteration as end:
        return int(end.value)
    raise AssertionError("the sync does not end")


def test_a_sync_follows_the_server_to_another_branch() -> None:
    genesis = Network.REGTEST.genesis()
    trunk = branch(genesis, 60, 1)
    longer, shorter = branch(trunk[29], 50, 2), branch(trunk[9], 20, 3)
    chain = HeaderChain("regtest")
    assert synced(chain, trunk) == 60
    assert synced(chain, trunk) == 0
    assert synced(chain, trunk[:30] + longer) == 50
    assert chain.tip.hash == longer[-1].hash()
    # The server's chain has less work, or only the genesis block: the own chain stays.
    assert synced(chain, trunk[:10] + shorter) == 0
    assert synced(chain, []) == 0
    assert chain.tip.hash == longer[-1].hash()
    with pytest.raises(LinesideError, match="not that of regtest"):
        synced(HeaderChain("regtest"), branch(trunk[5], 3, 4))


def test_a_server_whose_headers_have_other_heights_is_refused() -> None:
    first = branch(Network.REGTEST.genesis(), 30, 1)
    chain = HeaderChain("regtest")
    # It answers every request with the first headers, which the chain knows.
    steps = spv.Requests().sync(chain)
    next(steps)
    steps.send(spv.Answer(first[:14], 30, bytes(32)))
    with pytest.raises(ChainError, match="not those at height 15"):
        steps.send(spv.Answer(first[:14], 30, bytes(32)))
    # A server that becomes shorter while the chain goes back.
    other = HeaderChain("regtest")
    other.accept(first)
    steps = spv.Requests().sync(other)
    next(steps)
    steps.send(spv.Answer([branch(first[3], 2, 5)[1]], 31, bytes(32)))
    with pytest.raises(StopIteration):
        steps.send(spv.Answer([], 0, bytes(32)))
