# SPDX-License-Identifier: Apache-2.0
"""Mutation test of rtl/: changes one place at a time, and requires that the vectors, the random frames or a proof find
the change.

Run by scripts/rtl-mutants.sh, optionally with the numbers of some mutants. With --proofs before the numbers, it runs
the proofs alone, also on mutants that the tests have found already, to show that the proofs can fail. The tests run
once, on the unchanged design; replay.py repeats their calls on each mutant, and stops at the first difference. Only the
mutants that this does not find, and those of modules in PROOF_FIRST, are given to the solver. Results are added to
rtl/mutants.csv as they come.
"""

import csv
import os
import pathlib
import resource
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / os.environ.get("RTL_MUTANTS_DIR", "target/rtl-mutants")
TABLE = ROOT / os.environ.get("RTL_MUTANTS_TABLE", "rtl/mutants.csv")
COLUMNS = ["mutant", "file", "text", "replacement", "found by", "detail", "proof"]
# Seconds of processor time for a mutant: a mutant that stops the simulation ends so, and is found.
BUILD_SECONDS, REPLAY_SECONDS, PROOF_SECONDS = 120, 120, 600
PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
W, C, E = "pipeline/ls_window.sv", "pipeline/ls_classify.sv", "pipeline/ls_emit.sv"
N, B = "pipeline/ls_endpoint.sv", "pipeline/ls_barrier.sv"
Q, L, R, M, K = (f"spv/ls_spv_{name}.sv" for name in ["request", "lookup", "reply", "commands", "core"])
I, O, X = (f"spv/ls_spv_{name}.sv" for name in ["items", "roots", "patch"])
P, H = "pipeline/ls_pipeline_pkg.sv", "common/ls_index_hash.sv"
FIFO, SKID, RAMFIFO = "common/ls_fifo.sv", "common/ls_skid.sv", "common/ls_ram_fifo.sv"
SLICE, IN = "common/ls_slice.sv", "pipeline/ls_input.sv"

# File, text, replacement. Each text occurs once in its file.
MUTANTS = [
    (W, "16'(beats_q) * 16'(BeatBytes) + 16'(kept)", "16'(beats_q) * 16'(BeatBytes) + 16'd64"),
    (W, "valid_d = beat_valid_i && !is_decided_q &&", "valid_d = beat_valid_i &&"),
    (W, "if (place_q != '0 && (", "if (place_q[WindowBeats-2:0] != '0 && ("),
    (W, "if (beat_i.last) beats_q <= '0;", "if (beat_i.last && beats_q != 2) beats_q <= '0;"),
    (W, "{EtherTypeVlan, EtherTypeQinq}", "{EtherTypeVlan}"),
    (C, "window_i.bytes >= 16'(EthBytes + VlanBytes)", "1'b1"),
    (C, "l3_q.data[7:0] == 8'h45", "l3_q.data[7:4] == 4'h4"),
    (C, "FragmentMask = 16'h3fff", "FragmentMask = 16'h1fff"),
    (C, "l3_q.data[8*9+:8] == ProtocolUdp", "1'b1"),
    (C, "l3_q.data[7:4] == 4'd6 &&", ""),
    (C, "l3_q.bytes >= 16'(Ipv6Bytes + UdpBytes)", "1'b1"),
    (C, "compared_q.udp_bytes <= compared_q.bytes", "1'b1"),
    (C, "udp_bytes >= 16'(UdpBytes)", "1'b1"),
    (C, "compared_q.is_port && compared_q.is_own_mac &&", "compared_q.is_port &&"),
    (C, "source_port == '0 ||", ""),
    (C, "source_port == destination_port || is_service_port(source_port)", "source_port == destination_port"),
    (C, "|| (&v4_source);", ";"),
    (C, "v4_broadcast[i] = endpoint_i.v4_own[i] &&", "v4_broadcast[i] = 1'b0 &&"),
    (C, "v4_source[7:4] == 4'he", "v4_source[7:4] == 4'hf"),
    (C, "is_source_v4_loopback = v4_source[7:0] == 8'd127;", "is_source_v4_loopback = 1'b0;"),
    (C, "&compared_q.is_source_zero && compared_q.source_end[1]", "1'b0"),
    (C, "l4_q.source[7:0] == 8'hff", "1'b0"),
    (C, "if (l4_q.is_multicast_source) compared_d", "if (1'b0) compared_d"),
    (C, "decided_d.is_final = reply_ttl(checked_q.is_native, checked_q.ttl) == '0;", "decided_d.is_final = 1'b0;"),
    (C, "if (checked_q.is_port_refused) begin", "if (checked_q.is_port_refused && !checked_q.is_source_refused) begin"),
    (C, "{1'd0, udp_bytes, 1'b0}", "{2'd0, udp_bytes}"),
    (P, "return once[16] ? with_carry : once[15:0];", "return once[15:0];"),
    (P, "if (is_native || ttl > TtlMax) return TtlMax;", "if (is_native) return TtlMax;"),
    (P, "return ttl - 8'd1;", "return ttl;"),
    (Q, "!joined_q.is_right_version ||", ""),
    (Q, "!joined_q.is_right_status ||", ""),
    (Q, "!joined_q.is_root || !is_padded_q", "!joined_q.is_root"),
    (Q, "is_zero_q <= &is_zero_part_q;", "is_zero_q <= |is_zero_part_q;"),
    (Q, "end else if (!joined_q.is_paper_format) begin", "end else if (1'b0) begin"),
    (Q, "(payload[8*NativeHeaderOpAt+:8] & NativeReplyBit) != '0", "1'b0"),
    (L, "!control_i.epoch[0] && is_leased_q", "is_leased_q"),
    (L, "now_ns_i < control_i.lease_until_ns", "now_ns_i <= control_i.lease_until_ns"),
    (L, "lines[i].txid[PartBits*part+:PartBits] == read_txid[PartBits*part+:PartBits];",
     "lines[i].txid[PartBits*part+:31] == read_txid[PartBits*part+:31];"),
    (L, "is_found_d = is_whole_q[i] && generations_q[i] != '0;", "is_found_d = generations_q[i] != '0;"),
    (L, "block.generation != generation", "1'b0"),
    (L, ".data_i(first_line_q[1:0]),", ".data_i(2'd0),"),
    (H, "{sum_q[63:32], sum_q[31:0] ^ sum_q[63:32]}", "sum_q"),
    (H, "cross_q[1] <= add_low(cross_parts_q[1]);", "cross_q[1] <= '0;"),
    (R, "if (decision_d.udp_check == '0) decision_d.udp_check = '1;", ""),
    (R, "request_q[0].is_native || is_magic_q", "request_q[0].is_native"),
    (R, "if (ttl_q == request_q[1].headers.ttl) ip_check_d", "if (1'b0) ip_check_d"),
    (R, "be32(block_i.height)", "block_i.height"),
    (R, "18'(request_i.is_native ? tip_sum_i : 16'd0)", "18'd0"),
    (E, "header[8*(ip_at+10)+:16] |= chosen_q.ip_check;", "header[8*(ip_at+10)+:8] |= chosen_q.ip_check[7:0];"),
    (E, "|= NativeReplyBit;", "|= '0;"),
    (E, "is_needed = decision_i.verdict != VerdictDrop || frame_i.last;", "is_needed = 1'b1;"),
    (E, "if (joined_q.beat.last) place_q <=", "if (joined_q.beat.last && !place_q[2]) place_q <="),
    (E, "{|place_q[WindowBeats:WindowBeats-1], place_q", "{place_q[WindowBeats-1], place_q"),
    (E, "{old[0+:48], old[48+:48]}", "{old[0+:48], old[0+:48]}"),
    (M, "block_o.hash_sum <= staged_sum_q;", "block_o.hash_sum <= '0;"),
    (N, "endpoint_o.v4_broadcast[i] <= value_i[63:32];", "endpoint_o.v4_broadcast[i] <= value_i[31:0];"),
    (IN, "open_q <= CountBits'(Frames - Uncounted)", "1'b1"),
    (IN, "fifo_ready && is_open_q", "is_open_q"),
    (FIFO, "count_q != (AddressBits + 1)'(Depth - 1)", "1'b1"),
    (SKID, "data_q <= spare_valid_q ? spare_q : data_i", "data_q <= data_i"),
    (SKID, "if (!spare_valid_q) spare_q <= data_i;", "spare_q <= data_i;"),
    (RAMFIFO, "waiting_q < AheadBits'(AheadMax)", "waiting_q <= AheadBits'(AheadMax)"),
    (B, "$signed(at_q - passed_i) <= 0;", "$signed(at_q - passed_i) <= 1;"),
    (E, "VerdictReply: out_ready = network_ready_i;", "VerdictReply: out_ready = 1'b1;"),
    (I, "RestAt = 8 * RootItemBlockHashAt;", "RestAt = 8 * RootItemHeightAt;"),
    (I, "{EtherTypeVlan, EtherTypeQinq}", "{EtherTypeVlan}"),
    (I, "8'(index_q) < count_q;", "1'b1;"),
    (O, "item_i.valid && fault_d == FaultNone", "item_i.valid"),
    (O, "(is_new ? is_same_epoch_i : is_steady_q) && epoch_i == epoch_q", "1'b1"),
    (O, "items_sum_o = is_new ? '0 : sum_q", "items_sum_o = sum_q"),
    (X, "write = item_i.is_first ? kept_q : write_q", "write = write_q"),
    (X, "if (keep_i) kept_q <= next_write;", "if (keep_i) kept_q <= write_q;"),
    (X, "< coarse_q.tail ? coarse_q.is_inside : !coarse_q.is_tail", "< coarse_q.tail ? coarse_q.is_inside : 1'b1"),
    (E, "is_done_q || (uses_patch && patch_i.is_end)", "is_done_q"),
    (R, "(RootBytes / 2)'({RootsHeadCountAt / 2{1'b1}})", "(RootBytes / 2)'({RootsHeadTipHeightAt / 2{1'b1}})"),
    (K, "begins_q <= begins;", "begins_q <= window_valid;"),
    (SLICE, "ready_o = ready_i || !valid_q", "ready_o = 1'b1"),
    (RAMFIFO, "stored_q < (AddressBits + 1)'(Depth - 1 - Slack)", "stored_q < (AddressBits + 1)'(Depth)"),
    (X, "needs_answer_q <= coarse.is_end ||", "needs_answer_q <="),
    (L, "is_high_below_q || (is_high_equal_q && is_low_below_q)", "is_high_below_q || is_low_below_q"),
    (E, "has_room_q <= held_q < CountBits'(OutBeats - 1)", "has_room_q <= held_q < CountBits'(OutBeats)"),
    (C, "v6_answered[i] = &compared_q.v6_answered[i]", "v6_answered[i] = |compared_q.v6_answered[i]"),
    (X, "readable_q <= kept_q;", "if (keep_i) readable_q <= next_write;"),
    (E, "is_done_q || patch_valid_i)", "is_first_q || is_done_q || patch_valid_i)"),
    (FIFO, "WritesIdle ? ready_q : push", "WritesIdle || push"),
]


# Proofs that are about a file.
PROOFS = {
    W: ["ls_window"],
    E: ["ls_emit", "ls_emit_bytes"],
    C: ["ls_classify:v6", "ls_classify:v4"],
    Q: ["ls_spv_request:items"],
    L: ["ls_spv_lookup:ways4_hash", "ls_spv_lookup:ways1_paper"],
    R: ["ls_spv_reply:one_txid", "ls_spv_reply:roots"],
    P: ["ls_spv_reply:one_txid", "ls_classify"],
    M: ["ls_spv_commands:table", "ls_spv_commands:external", "ls_spv_barrier"],
    N: ["ls_spv_commands:table", "ls_spv_commands:registers"],
    B: ["ls_spv_barrier"],
    FIFO: ["ls_fifo"],
    SKID: ["ls_skid"],
    SLICE: ["ls_slice"],
    RAMFIFO: ["ls_ram_fifo"],
    I: ["ls_spv_items:v4", "ls_spv_items:v6_vlan"],
    O: ["ls_spv_roots"],
    X: ["ls_spv_patch", "ls_spv_patch_answers"],
}
# Modules with fast proofs: a mutant there is given to the proof first, and to the tests if the proof does not find it.
PROOF_FIRST = {W, M, N, B, FIFO, SKID, SLICE, RAMFIFO, O}


def run(command, seconds, **own):
    """Runs a command with a limit of processor time; returns its exit status and the last line of its output."""

    def limit():
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))

    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {name: str(value) for name, value in own.items()},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=limit,
        check=False,
    )
    lines = done.stdout.strip().splitlines() or [""]
    return done.returncode, lines[-1]


def build(source, sim) -> bool:
    """Builds target `sim`/libls_sim.so without optimization, as one translation unit."""
    shutil.rmtree(sim, ignore_errors=True)
    sim.mkdir(parents=True)
    root = pathlib.Path(os.environ["VERILATOR_ROOT"])
    options = ["-O3", "--x-initial", "unique", "--x-assign", "unique", "--assert", "--quiet", "-Wno-fatal"]
    files = [source / "lint.vlt", *(source / name for name in (source / "spv/spv.f").read_text().split())]
    top = ["--cc", "--top-module", "ls_spv_core", "--prefix", "Vls_sim", "--Mdir", sim]
    if run(["verilator", *options, *top, *files], BUILD_SECONDS)[0] != 0:
        return False
    # The names that scripts/rtl-sim.sh gives to the classes and functions of the model.
    shutil.copy2(OUT / "runtime/ls_sim_model.h", sim)
    units = [*sorted(sim.glob("*.cpp")), source / "shells/sim/ls_sim.cpp"]
    (sim / "all.cc").write_text("".join(f'#include "{unit}"\n' for unit in units))
    flags = [f"-I{at}" for at in (sim, root / "include", root / "include/vltstd")]
    flags += [f"-DVM_{name}=0" for name in ("COVERAGE", "SC", "TRACE", "TRACE_FST", "TRACE_VCD", "TRACE_SAIF")]
    flags += ["-std=gnu++20", "-O0", "-w", "-fPIC", "-fvisibility=hidden", "-shared", "-pthread"]
    compiler = shutil.which("clang++-19") or shutil.which("clang++") or "c++"
    library = OUT / "runtime/libverilated.a"
    return run([compiler, *flags, "-o", sim / "libls_sim.so", sim / "all.cc", library], BUILD_SECONDS)[0] == 0


def prepare() -> pathlib.Path:
    """Builds Verilator's runtime and the unchanged design, and records the tests; returns the recording."""
    record = OUT / "record"
    sources = [path for path in (ROOT / "rtl").rglob("*") if path.suffix in {".py", ".sv", ".f", ".cpp", ".h"}]
    if record.exists() and record.stat().st_mtime > max(path.stat().st_mtime for path in sources):
        return record
    # The design or a test has changed since the recording.
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True, exist_ok=True)
    if not (OUT / "runtime/libverilated.a").exists():
        own = {"RTL_SIM_DIR": OUT / "runtime", "RTL_SIM_OPTIMIZE": "-O0"}
        if run(["bash", "scripts/rtl-sim.sh"], 600, **own)[0] != 0:
            sys.exit("rtl-mutants: the unchanged design does not build")
    tests = ["rtl/tb/vectors", "rtl/tb/diff/test_diff.py", "rtl/tb/diff/test_roots.py"]
    own = {"RTL_SIM_DIR": OUT / "runtime", "RTL_DIFF_FRAMES": 1500, "RTL_RECORD": OUT / "recording"}
    own["PYTHONPATH"] = ROOT / "rtl/tb"
    status, line = run([*PYTEST, "-p", "replay", *tests, "-k", "not epoch and not barrier"], 600, **own)
    if status != 0:
        sys.exit(f"rtl-mutants: the unchanged design does not pass the tests: {line}")
    (OUT / "recording").rename(record)
    return record


def is_refuted(folder, proof) -> bool:
    """Returns whether the proof does not hold on the copy of rtl/ in `folder`; a timeout is no answer."""
    own = {"RTL_SOURCE": folder / "rtl", "RTL_FORMAL_OUT": folder / "proof"}
    return run(["bash", "scripts/rtl-formal.sh", proof], PROOF_SECONDS, **own)[0] == 1


def refuting(folder, name) -> str:
    """Returns the first proof about the file `name` that does not hold for the mutant, or an empty text."""
    for proof in PROOFS.get(name, []):
        if (ROOT / f"rtl/formal/{proof.partition(':')[0]}.sby").exists() and is_refuted(folder, proof):
            return proof
    return ""


def change(number):
    """Copies rtl/ with the mutant into a folder; returns the folder, or None if the text does not occur once."""
    name, text, replacement = MUTANTS[number]
    folder = OUT / str(number)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "rtl", folder / "rtl", ignore=shutil.ignore_patterns("__pycache__", "transfer"))
    path = folder / "rtl" / name
    source = path.read_text()
    path.write_text(source.replace(text, replacement))
    return folder if source.count(text) == 1 else None


def is_found_by(folder, name, record):
    """Name of the check that finds the mutant, or an empty text; and a detail."""
    proof = refuting(folder, name) if name in PROOF_FIRST else ""
    if proof:
        return "proof", proof
    if not build(folder / "rtl", folder / "sim"):
        return "", "does not build"
    status, line = run([sys.executable, "rtl/tb/replay.py", record], REPLAY_SECONDS, RTL_SIM_DIR=folder / "sim")
    if status != 0:
        test = pathlib.Path(line.partition("::")[0]).parent.name
        kind = {"vectors": "vectors", "diff": "random frames"}.get(test, "stopped simulation")
        return kind, line.partition("::")[2][:100]
    # Changes of the host during traffic cannot be repeated cycle by cycle.
    during = "rtl/tb/diff/test_roots.py"
    status, line = run(
        [*PYTEST, "-x", during, "-k", "epoch or barrier"], REPLAY_SECONDS, RTL_SIM_DIR=folder / "sim"
    )
    if status == 1:
        return "changes during traffic", line[:100]
    proof = refuting(folder, name) if name not in PROOF_FIRST else ""
    return ("proof", proof) if proof else ("", "")


def results():
    """Rows of the table by mutant."""
    if not TABLE.exists():
        return {}
    with TABLE.open() as file:
        return {int(row["mutant"]): row for row in csv.DictReader(file)}


def main() -> int:
    only_proofs = sys.argv[1:2] == ["--proofs"]
    chosen = [int(argument) for argument in sys.argv[1 + only_proofs :]] or range(len(MUTANTS))
    record = None if only_proofs else prepare()
    missed = []
    for number in chosen:
        name, text, replacement = MUTANTS[number]
        folder = change(number)
        row = results().get(number, dict.fromkeys(COLUMNS, ""))
        row |= {"mutant": number, "file": name, "text": " ".join(text.split())}
        row["replacement"] = " ".join(replacement.split())
        if folder is None:
            found, detail = "", "the text does not occur once"
        elif only_proofs:
            found, detail = refuting(folder, name), ""
            row["proof"] = found or "holds"
            if found and row["found by"] in ("", "not found"):
                row |= {"found by": "proof", "detail": found}
        else:
            found, detail = is_found_by(folder, name, record)
            row |= {"found by": found or "not found", "detail": detail}
            row["proof"] = detail if found == "proof" else row["proof"]
        print(f"mutant {number}: {found or 'NOT FOUND'} ({detail}): {name}: {text!r} -> {replacement!r}", flush=True)
        rows = results() | {number: row}  # read again: another run may have added results
        with TABLE.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows[key] for key in sorted(rows))
        if not found:
            missed.append(number)
        shutil.rmtree(OUT / str(number), ignore_errors=True)
    print(f"rtl-mutants: {len(chosen) - len(missed)} of {len(chosen)} found; not found: {missed}")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
