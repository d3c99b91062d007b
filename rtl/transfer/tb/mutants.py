# SPDX-License-Identifier: Apache-2.0
"""Changes the core by textual rules, one at a time, and checks that the simulation or a proof finds each change.

Run by scripts/test-rtl-transfer.sh mutants. Arguments: the work directory, then numbers of mutants (default: all).
For each mutant it runs the proof of the changed module, and the simulation if the proof does not find the change. It
fails if neither does.
"""

import shutil
import subprocess
import sys
from pathlib import Path

# File, text (which must occur once), replacement, description.
EXECUTE, SEARCH, STORE = (f"ls_transfer_{name}.sv" for name in ("execute", "search", "store"))
FIFO, RAM = "ls_transfer_fifo.sv", "ls_transfer_ram.sv"
MUTANTS = [
    (EXECUTE, "if (from[0]) return", "if (1'b0) return", "the source of the slot before is not forwarded"),
    (EXECUTE, "if (from[1]) return", "if (1'b0) return", "the destination of the slot before is not forwarded"),
    (EXECUTE, "if (from[2]) return", "if (1'b0) return", "the source of the slot two before is not forwarded"),
    (EXECUTE, "if (from[3]) return", "if (1'b0) return", "the destination of the slot two before is not forwarded"),
    (EXECUTE, "    if (from[0]) return", "    if (from[2]) return source_write_q;\n    if (from[0]) return",
     "an older value is forwarded first"),
    (EXECUTE, "operand_q.slot.valid && operand_q.destination_found && operand_q.destination == index",
     "operand_q.slot.valid && operand_q.destination == index", "the credit side of ISSUE is forwarded"),
    (EXECUTE, "operation.amount > available", "operation.amount >= available", "the whole balance cannot be paid"),
    (EXECUTE, "source_q.balance - source_q.held_out", "source_q.balance", "held amounts can be paid"),
    (EXECUTE, "sum[AmountBits] || sum[AmountBits-1:0] > limit", "sum[AmountBits-1:0] > limit", "a balance wraps"),
    (EXECUTE, " || sum_held[AmountBits];", ";", "amounts to come are not counted"),
    (EXECUTE, "values_q.is_left_over || values_q.is_over ?", "values_q.is_left_over ?", "TRANSFER may overflow"),
    (EXECUTE, "values_q.is_left_over || values_q.is_over ?", "values_q.is_over ?", "a reply is cut to 32 bits"),
    (EXECUTE, "source_q.frozen ||\n", "1'b0 ||\n", "a frozen account pays"),
    (EXECUTE, "source_q.claimed ||\n        (operand_q.destination_found && destination_q.claimed)", "source_q.claimed",
     "a claimed account is paid"),
    (EXECUTE, "operation.number <= source_q.last.number;", "operation.number < source_q.last.number;",
     "the last number is executed twice"),
    (EXECUTE, "if (credit_q == '0) code", "if (1'b0) code", "refusals need no credit"),
    (EXECUTE, "credit_d = credit_q - 1'b1;", "credit_d = credit_q;", "refusals use no credit"),
    (EXECUTE, "operation.keep_refusals && operand_q.slot.has_place", "operation.keep_refusals",
     "a record without a place"),
    (EXECUTE, "destination_next.version = values_q.destination_version;", "", "the payee's version stays"),
    (EXECUTE, "operand_q.found ? source_q.last : '0", "source_q.last", "a new account has an old number"),
    (EXECUTE, "if (operand_q.is_new) source_next = '0;", "", "a new account has old contents"),
    (EXECUTE, "is_executed && operation.command == CommandTransfer;",
     "operand_q.destination_found && operation.command == CommandTransfer;", "a refused TRANSFER pays"),
    (EXECUTE, "destination_found_i ? destination_i : source_i", "destination_i", "ISSUE adds to another account"),
    (EXECUTE, "phase_i && destination_write_enable_q)", "phase_i && 1'b0)", "the payee is not written"),
    (SEARCH, "for (int c = 1; c >= 0; c--)", "for (int c = 0; c >= 0; c--)", "the older change is not seen"),
    (SEARCH, "for (int c = 1; c >= 0; c--)", "for (int c = 1; c >= 1; c--)", "the newest change is not seen"),
    (SEARCH, "&&\n              change_q[c].way == WayBits'(w)) begin", ") begin", "a change is seen in all cells"),
    (SEARCH, "(&is_equal_q[b][i])", "is_equal_q[b][i][0]", "a quarter of the id decides"),
    (SEARCH, "used[0] > used[1]", "used[0] >= used[1]", "another bucket than in XDP"),
    (SEARCH, "is_full_o  = is_full[other]", "is_full_o  = is_full[0]", "a full bucket is not noticed"),
    (SEARCH, "is_used: insert_i,", "is_used: 1'b1,", "a removed account stays"),
    (SEARCH, "if (&clear_bucket_q)", "if (clear_bucket_q == '0)", "most buckets are not cleared"),
    (STORE, "needs_place && record_places_q != '0", "needs_place", "records are lost"),
    (STORE, "done.has_place && !result.recorded", "1'b0", "unused places are lost"),
    (STORE, "search_ready && result_places_q != '0 && !take_order", "search_ready && !take_order", "results are lost"),
    (STORE, "operation_i.command != CommandRefer &&\n      (operation_i.keep", "(operation_i.keep",
     "REFER needs a place"),
    (STORE, " ||\n      (operation_i.command == CommandTransfer && operation_i.amount == '0)", "",
     "a TRANSFER of 0 is executed"),
    (STORE, " ||\n      (operation_i.command == CommandIssue && !operation_i.is_paper && operation_i.amount == '0)", "",
     "a native ISSUE of 0 is executed"),
    (STORE, "CommandIssue && !operation_i.is_paper &&", "CommandIssue &&", "an ISSUE of 0 of the paper is refused"),
    (STORE, "(order_turn_q || result_places_q == '0)", "1'b1", "orders delay operations without a bound"),
    (STORE, "compare.operation.command == CommandCreate && !compare.is_busy",
     "compare.operation.command == CommandCreate", "a busy CREATE takes a cell"),
    (STORE, " &&\n          slot_q[ExecuteAt].operation.source != slot_q[ExecuteAt].operation.destination", "",
     "one account is both sides"),
    (STORE, " ^ BucketBits'(first == hash[63-BucketBits-:BucketBits])", "", "both buckets are one"),
    (STORE, "first = hash[63-:BucketBits]", "first = hash[62-:BucketBits]", "another bucket than in XDP"),
    (FIFO, "if (pop_o) read_q <= read_q + 1'b1;", "if (ready_i) read_q <= read_q + 1'b1;",
     "a queue is read when empty"),
    (RAM, "    a_out_q <= a_read_q;\n", "    if (!a_write_i) a_out_q <= a_read_q;\n", "a write disturbs a read"),
]
PROOF = {EXECUTE: "execute", SEARCH: "search", STORE: "store", FIFO: "store", RAM: "execute"}


def run(command, cwd, seconds):
    """Returns the exit status; a run that takes too long counts as failed."""
    try:
        return subprocess.run(command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              timeout=seconds, check=False).returncode
    except subprocess.TimeoutExpired:
        return 124


def build(folder, objects=()):
    """Builds the simulation into folder/sim, with objects of the unchanged core that do not depend on its contents."""
    (folder / "sim").mkdir()
    for source in objects:
        shutil.copy2(source, folder / "sim")
    if run(["cc", "-O1", "-c", "-DBUCKET_BITS=3", "-D__TARGET_ARCH_x86", "-I../../xdp", "-I../../xdp/native",
            "tb/xdp_oracle.c", "-o", "sim/xdp_oracle.o"], folder, 60) != 0:
        return 1
    return run(["verilator", "--cc", "--exe", "--build", "-O1", "--x-assign", "unique", "--x-initial", "unique",
                "--Mdir", str(folder / "sim"), "-GBucketBits=3", "--top", "ls_transfer_shell", "-f", "ls_transfer.f",
                "tb/ls_transfer_shell.sv", "tb/transfer_test.cpp", str(folder / "sim" / "xdp_oracle.o"),
                "-CFLAGS", "-std=c++20 -DBUCKET_BITS=3", "-MAKEFLAGS",
                "CFG_CXXFLAGS_PCH_I=-include OPT_FAST=-O0 OPT_SLOW=-O0", "-Wno-fatal", "-o", "test"], folder, 900)


def build_base(folder):
    """Builds the simulation of the unchanged core, which must pass."""
    base = copy_sources(folder)
    if build(base) != 0 or run([str(base / "sim" / "test"), "4000"], base, 600) != 0:
        sys.exit("the unchanged core does not pass the simulation")
    return base


def simulate(folder, base):
    # Objects that are newer than their sources are not built again.
    objects = [*(base / "sim").glob("verilated*.o"), base / "sim" / "transfer_test.o"]
    if build(folder, objects) != 0:
        return "not built"
    return "found" if run([str(folder / "sim" / "test"), "4000"], folder, 600) != 0 else "-"


def prove(folder, name):
    status = run(["yowasp-sby", "-f", "-d", str(folder / name), f"formal/{name}.sby"], folder, 900)
    return {0: "-", 2: "found", 4: "found"}.get(status, f"status {status}")


def copy_sources(folder):
    """Copies the sources into a new folder, and returns the copy of rtl/transfer."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(".", folder / "rtl" / "transfer")
    shutil.copytree("../common", folder / "rtl" / "common")
    shutil.copytree("../../xdp", folder / "xdp")
    return folder / "rtl" / "transfer"


def main():
    work = Path(sys.argv[1]).resolve()
    chosen = [int(number) for number in sys.argv[2:]] or range(len(MUTANTS))
    missed = 0
    base = None
    for number in chosen:
        name, text, replacement, description = MUTANTS[number]
        folder = copy_sources(work / f"mutant-{number}")
        source = (folder / name).read_text()
        if source.count(text) != 1:
            print(f"mutant {number}: {text!r} occurs {source.count(text)} times in {name}")
            missed += 1
            continue
        (folder / name).write_text(source.replace(text, replacement))
        proved = prove(folder, PROOF[name]) if name in PROOF else "none"
        simulated = "not run"
        if proved != "found":
            base = base or build_base(work / "mutant-base")
            simulated = simulate(folder, base)
        is_found = "found" in (simulated, proved)
        missed += not is_found
        print(f"{number:2} {name:24} {description:52} proof: {proved:9} simulation: {simulated:9}"
              f"{'' if is_found else ' MISSED'}", flush=True)
        shutil.rmtree(work / f"mutant-{number}")
    print(f"{len(chosen) - missed} of {len(chosen)} mutants are found")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
