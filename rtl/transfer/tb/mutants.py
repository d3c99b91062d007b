# SPDX-License-Identifier: Apache-2.0
"""Changes the store by textual rules, one at a time, and checks that the simulation or a proof finds each change.

Run by scripts/test-rtl-transfer.sh mutants. Arguments: the work directory, then numbers of mutants (default: all).
One build of the simulation has all mutants, and a file chooses one of them for each run, which stops at the first
difference. A mutant that the simulation does not find is given to the proof of its module. The script fails if neither
finds it. Results are added to rtl/transfer/mutants.csv as they come.
"""

import csv
import os
import shutil
import subprocess
import sys
from pathlib import Path

TABLE = Path("mutants.csv")
COLUMNS = ["mutant", "file", "text", "replacement", "description", "found by"]
OPERATIONS = 4000  # in each random scenario
BUCKETS = "3"  # bits

# File, text (which must occur once), replacement, description. A text is an expression, or it is statements that end
# with a semicolon. Texts of different mutants are equal or do not overlap.
EXECUTE, SEARCH, STORE = (f"ls_transfer_{name}.sv" for name in ("execute", "search", "store"))
FIFO, RAM = "../common/ls_fifo.sv", "ls_transfer_ram.sv"
OF_TRANSFER, OF_ISSUE = (f"operation_i.command == Command{name}" for name in ("Transfer", "Issue"))
NEEDS_AMOUNT = f"{OF_TRANSFER} ||\n          ({OF_ISSUE} && !operation_i.is_paper)"
NEEDS_PLACE = "!take_order && {}operation_i.refused == CodeDone"
MUTANTS = [
    (EXECUTE, "if (from[0]) return source;", "", "the source of the slot before is not forwarded"),
    (EXECUTE, "if (from[1]) return destination;", "", "the destination of the slot before is not forwarded"),
    (EXECUTE, "if (from[2]) return source_write_q;", "", "the source of the slot two before is not forwarded"),
    (EXECUTE, "if (from[3]) return destination_write_q;", "",
     "the destination of the slot two before is not forwarded"),
    (EXECUTE, "if (from[0]) return source;",
     "if (from[2]) return source_write_q; if (from[0]) return source;", "an older value is forwarded first"),
    (EXECUTE, "operand_q.slot.valid && operand_q.destination_found && operand_cells_q.destination == index",
     "operand_q.slot.valid && operand_cells_q.destination == index", "the credit side of ISSUE is forwarded"),
    (EXECUTE, "rests[borrow][HighBits+1]",
     "rests[borrow][HighBits+1] || (rest_low == '0 && held_rest == decoded_q.highs[0])", "the whole balance cannot be paid"),
    (EXECUTE, "low_t'(source_q.held_out[LowBits-1:0])", "low_t'(0)", "held amounts can be paid"),
    (EXECUTE, "totals[carry][HighBits+1:HighBits] != '0", "1'b0", "a balance wraps"),
    (EXECUTE, "low_t'(destination_q.held_in[LowBits-1:0])", "low_t'(0)", "amounts to come are not counted"),
    (EXECUTE, "(decoded_q.is_transfer || decoded_q.is_issue)", "decoded_q.is_issue", "TRANSFER may overflow"),
    (EXECUTE, "is_insufficient || is_left_over", "is_insufficient", "a reply is cut to 32 bits"),
    (EXECUTE, "source_q.frozen ||\n        (operand_q.destination_found && destination_q.frozen)",
     "(operand_q.destination_found && destination_q.frozen)", "a frozen account pays"),
    (EXECUTE, "source_q.claimed ||\n        (operand_q.destination_found && destination_q.claimed)", "source_q.claimed",
     "a claimed account is paid"),
    (EXECUTE, "operation.number <= source_q.last.number", "operation.number < source_q.last.number",
     "the last number is executed twice"),
    (EXECUTE, "credit_q == '0", "1'b0", "refusals need no credit"),
    (EXECUTE, "values_d.credit_less = credit_q - 1'b1;", "values_d.credit_less = credit_q;", "refusals use no credit"),
    (EXECUTE, "operation.keep_refusals && operand_q.slot.has_place", "operation.keep_refusals",
     "a record without a place"),
    (EXECUTE, "destination_pass.version = values_q.destination_version;", "", "the payee's version stays"),
    (EXECUTE, "if (decoded_q.is_last_blank) values_d.base.last = '0;",
     "if (decoded_q.is_blank) values_d.base.last = '0;", "a new account has an old number"),
    (EXECUTE, "if (decoded_q.is_blank) values_d.base = '0;", "", "a new account has old contents"),
    (EXECUTE, "destination_write = values_q.pays && !is_failing;",
     "destination_write = operand_q.destination_found && operation.command == CommandTransfer;",
     "a refused TRANSFER pays"),
    (STORE, "has_payee_q ? found_cell : source_q", "found_cell", "ISSUE adds to another account"),
    (EXECUTE, "destination_port_write_q <= rst_ni && !phase_i && destination_write;",
     "destination_port_write_q <= 1'b0;", "the payee is not written"),
    (SEARCH, "change_q[c].valid", "change_q[c].valid && c == 0", "the older change is not seen"),
    (SEARCH, "change_q[c].valid", "change_q[c].valid && c == 1", "the newest change is not seen"),
    (SEARCH, "change_q[c].way == WayBits'(w)", "1'b1", "a change is seen in all cells"),
    (SEARCH, "(&is_read_equal_q[b][i])", "is_read_equal_q[b][i][0]", "a quarter of the id decides"),
    (SEARCH, "used[0] > used[1]", "used[0] >= used[1]", "another bucket than in XDP"),
    (SEARCH, "is_full[other]", "is_full[0]", "a full bucket is not noticed"),
    (SEARCH, "change_d.entry = '{is_used: insert_i, id: id3_q};", "change_d.entry = '{is_used: 1'b1, id: id3_q};",
     "a removed account stays"),
    (SEARCH, "&clear_bucket_q", "clear_bucket_q == '0", "most buckets are not cleared"),
    (STORE, "needs_place && !was_full_q", "needs_place", "records are lost"),
    (STORE, "done.has_place && !result.recorded", "1'b0", "unused places are lost"),
    (STORE, "search_ready && result_places_q != '0 && !may_take_order", "search_ready && !may_take_order",
     "results are lost"),
    (STORE, NEEDS_PLACE.format("operation_i.command != CommandRefer && "), NEEDS_PLACE.format(""),
     "REFER needs a place"),
    (STORE, NEEDS_AMOUNT, f"{OF_ISSUE} && !operation_i.is_paper", "a TRANSFER of 0 is executed"),
    (STORE, NEEDS_AMOUNT, OF_TRANSFER, "a native ISSUE of 0 is executed"),
    (STORE, NEEDS_AMOUNT, f"{OF_TRANSFER} || {OF_ISSUE}",
     "an ISSUE of 0 of the paper is refused"),
    (STORE, "(order_turn_q || result_places_q == '0)", "1'b1", "orders delay operations without a bound"),
    (STORE, "compare.operation.command == CommandCreate && !compare.is_busy",
     "compare.operation.command == CommandCreate", "a busy CREATE takes a cell"),
    (STORE, "slot_q[CompareAt].operation.command == CommandTransfer &&\n"
     "        slot_q[CompareAt].operation.source != slot_q[CompareAt].operation.destination",
     "slot_q[CompareAt].operation.command == CommandTransfer", "one account is both sides"),
    (STORE, "BucketBits'(first == hash[63-BucketBits-:BucketBits])", "BucketBits'(0)", "both buckets are one"),
    (STORE, "hash[63-:BucketBits]", "hash[62-:BucketBits]", "another bucket than in XDP"),
    (FIFO, "if (pop) read_q <= read_q + 1'b1;", "if (ready_i) read_q <= read_q + 1'b1;",
     "a queue is read when empty"),
    (RAM, "a_out_q <= a_read_q;", "if (!a_write_i) a_out_q <= a_read_q;", "a write disturbs a read"),
    (EXECUTE, "high_t'(source_q.held_out >> LowBits)", "high_t'(0)", "large held amounts can be paid"),
    (EXECUTE, "high_t'(destination_q.held_in >> LowBits)", "high_t'(0)", "large amounts to come are not counted"),
    (EXECUTE, "-rest_low[LowBits+1:LowBits]", "2'(rest_low[LowBits+1])", "a borrow of 2 is one of 1"),
    (EXECUTE, "total_low[LowBits+1:LowBits]", "2'(total_low[LowBits])", "a carry of 2 is none"),
    (EXECUTE, "decoded_q.is_beyond_paper", "1'b0", "a paper balance is above 32 bits"),
    (EXECUTE, "outcome_q.is_executed || outcome_q.tells", "outcome_q.is_executed", "REFER tells no balance"),
    (EXECUTE, "outcome_q.is_same", "1'b0", "a repetition tells no balance"),
    (EXECUTE, "if (outcome_q.grants) cell_o.balance = credit_q;", "", "the host does not get the credit"),
    (EXECUTE, "source_write_enable_q ? source_write_q.version : '0", "source_write_q.version",
     "a record has the version of a source that stays"),
    (EXECUTE, "destination_write_enable_q ? destination_write_q.version : '0", "destination_write_q.version",
     "a record has the version of a destination that stays"),
    (EXECUTE, "newest(source_from_q, source_fail, destination_fail, source_read)",
     "newest(source_from_q, source_pass, destination_fail, source_read)",
     "a source takes a cell whose operation the sums refuse as if it were executed"),
    (EXECUTE, "newest(source_from_q, source_pass, destination_pass, source_read)",
     "newest(source_from_q, source_pass, destination_fail, source_read)",
     "a source does not see what the slot before paid to it"),
    (EXECUTE, "newest(destination_from_q, source_fail, destination_fail, destination_read)",
     "newest(destination_from_q, source_fail, destination_pass, destination_read)",
     "a destination has a payment that the sums refuse"),
    (EXECUTE, "changed(1'b0, values_q.refusal_spends, values_q.refusal_spends, values_q.failing_code)",
     "changed(1'b0, values_q.refusal_spends, values_q.refusal_spends, values_q.code)",
     "the last code of a source that the sums refuse is that of an executed operation"),
    (SEARCH, "used[b] += (WayBits + 1)'(is_used_q[b][i]);", "used[b] += (WayBits + 1)'(is_read_q[b][i]);",
     "the choice of the bucket does not count the cells that the last two slots changed"),
]
# Proofs that are about a file.
PROOF = {name: name.removesuffix(".sv") for name in (EXECUTE, SEARCH, STORE)}
PROOF |= {FIFO: PROOF[STORE], RAM: PROOF[EXECUTE]}

SELECTION = """
package ls_mutant_pkg;
  function automatic int read();
    int file, number, count;
    number = -1;
    file = $fopen("{path}", "r");
    count = $fscanf(file, "%d", number);
    $fclose(file);
    return number;
  endfunction
  int selected = read();
endpackage
"""


def run(command, cwd, seconds, **own):
    """Returns the exit status; a run that takes too long counts as failed."""
    try:
        return subprocess.run(command, cwd=cwd, env=os.environ | own, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              timeout=seconds, check=False).returncode
    except subprocess.TimeoutExpired:
        return 124


def copy_sources(folder):
    """Copies the sources into a new folder, and returns the copy of rtl/transfer."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(".", folder / "rtl" / "transfer")
    shutil.copytree("../common", folder / "rtl" / "common")
    shutil.copytree("../formal", folder / "rtl" / "formal")
    shutil.copytree("../../xdp", folder / "xdp")
    return folder / "rtl" / "transfer"


def changed(source, text, replacement, name):
    """Returns the source with another text; ends the program if the text does not occur exactly once."""
    if source.count(text) != 1:
        sys.exit(f"rtl/transfer/tb/mutants.py: {text!r} occurs {source.count(text)} times in {name}; correct the rule")
    return source.replace(text, replacement)


def selectable(text, numbers):
    """Returns code that is the text, or the replacement of the selected mutant."""
    for number in numbers:
        replacement = MUTANTS[number][2]
        selected = f"ls_mutant_pkg::selected == {number}"
        if MUTANTS[number][1].endswith(";"):
            text = f"if ({selected}) begin {replacement} end else begin {text} end"
        else:
            text = f"({selected} ? ({replacement}) : ({text}))"
    return text


def build(work):
    """Builds the simulation with all mutants; -1 selects the unchanged store. Returns its folder."""
    folder = copy_sources(work / "mutants")
    (folder / "selected").write_text("-1\n")
    (folder / "ls_mutant_pkg.sv").write_text(SELECTION.format(path=folder / "selected"))
    places = {}
    for number, (name, text, _, _) in enumerate(MUTANTS):
        places.setdefault((name, text), []).append(number)
    # A replacement may contain the text of another mutant, so that the last place in a file is changed first.
    for (name, text), numbers in sorted(places.items(), key=lambda one: -Path(one[0][0]).read_text().find(one[0][1])):
        changed(Path(name).read_text(), text, text, name)
        source = (folder / name).read_text()
        at = source.find(text)
        (folder / name).write_text(source[:at] + selectable(text, numbers) + source[at + len(text) :])
    (folder / "sim").mkdir()
    status = run(["cc", "-O1", "-c", f"-DBUCKET_BITS={BUCKETS}", "-D__TARGET_ARCH_x86", "-I../../xdp",
                  "-I../../xdp/native", "tb/xdp_oracle.c", "-o", "sim/xdp_oracle.o"], folder, 300)
    with (folder / "build.log").open("w") as log:
        status = status or subprocess.run(
            ["verilator", "--cc", "--exe", "--build", "-O3", "--x-assign", "unique", "--x-initial", "unique", "--Mdir",
             str(folder / "sim"), f"-GBucketBits={BUCKETS}", "--top", "ls_transfer_shell", "ls_mutant_pkg.sv", "-f",
             "ls_transfer.f", "tb/ls_transfer_shell.sv", "tb/transfer_test.cpp", str(folder / "sim" / "xdp_oracle.o"),
             "-CFLAGS", f"-std=c++20 -DBUCKET_BITS={BUCKETS}", "-MAKEFLAGS",
             "CFG_CXXFLAGS_PCH_I=-include OPT_FAST=-O1 OPT_SLOW=-O0", "-Wno-fatal", "-o", "test"],
            cwd=folder, stdout=log, stderr=log, check=False).returncode
    if status != 0:
        sys.exit(f"the simulation with all mutants does not build; see {folder}/build.log")
    if simulate(folder, -1):
        sys.exit("the unchanged store does not pass the simulation")
    return folder


def simulate(folder, number):
    """Returns if the simulation finds the mutant. A run without an end counts as found."""
    (folder / "selected").write_text(f"{number}\n")
    return run([str(folder / "sim" / "test"), str(OPERATIONS)], folder, 300) != 0


def prove(work, number):
    """Returns if the proof of its module refutes the mutant; a timeout is no answer."""
    name, text, replacement, _ = MUTANTS[number]
    copy = work / f"mutant-{number}"
    folder = copy_sources(copy)
    (folder / name).write_text(changed((folder / name).read_text(), text, replacement, name))
    own = {"RTL_SOURCE": str(copy / "rtl"), "RTL_FORMAL_OUT": str(copy / "proof")}
    # The proof itself has a limit of time.
    status = run(["bash", "../../scripts/rtl-formal.sh", PROOF[name]], ".", None, **own)
    shutil.rmtree(copy)
    return status == 1


def record(number, found):
    """Writes the result into the table."""
    fields = [" ".join(field.split()) for field in MUTANTS[number]]
    rows = {}
    if TABLE.exists():
        with TABLE.open() as file:
            rows = {int(row["mutant"]): row for row in csv.DictReader(file)}
    rows[number] = dict(zip(COLUMNS, (number, *fields, found or "not found"), strict=True))
    with TABLE.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[key] for key in sorted(rows))


def main():
    work = Path(sys.argv[1]).resolve()
    chosen = [int(number) for number in sys.argv[2:]] or range(len(MUTANTS))
    folder = build(work)
    missed = []
    for number in chosen:
        found = "simulation" if simulate(folder, number) else f"proof {PROOF[MUTANTS[number][0]]}"
        if found != "simulation" and not prove(work, number):
            found = ""
        record(number, found)
        name, _, _, description = MUTANTS[number]
        print(f"{number:2} {name:24} {description:56} {found or 'NOT FOUND'}", flush=True)
        if not found:
            missed.append(number)
    print(f"{len(chosen) - len(missed)} of {len(chosen)} mutants are found; not found: {missed}")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
