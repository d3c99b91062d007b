# SPDX-License-Identifier: Apache-2.0
"""Mutation test of external memory: one model has all mutants, and a file chooses one of them for each run.

Each mutant replaces an expression. The random frames or the tests of rtl/tb/memory must find it. Run by
`scripts/rtl-mutants.sh memory`, optionally with the numbers of some mutants.
"""

import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
OUT = ROOT / "target/rtl-mutants-memory"
R, W, M = (f"spv/ls_spv_memory{name}.sv" for name in ["_read", "_write", ""])
L, C = "spv/ls_spv_lookup.sv", "spv/ls_spv_commands.sv"

# File, expression, replacement. Each expression occurs once in its file.
MUTANTS = [
    (R, "open_q < ReadBits'(Reads)", "1'b1"),
    (R, "beat_q.high_stamp == beat_q.low_stamp", "1'b1"),
    (R, "!m_axi_rresp[1]", "1'b1"),
    (R, "beat_txid == key.txid", "beat_txid[191:0] == key.txid[191:0]"),
    (R, "is_first_word_q && is_whole_q && generation_q != '0", "is_first_word_q && is_whole_q"),
    (R, "is_decided_q || is_first_word_q", "is_decided_q || is_whole_q"),
    (R, "is_sound_q && line_is_sound_q", "line_is_sound_q"),
    (R, "beat_last_q ? '0 : beat_way_q + 1'b1", "2'd0"),
    (W, "acknowledged_valid && $signed(finished_i - acknowledged.after) >= 0", "acknowledged_valid"),
    (W, "stamp_q + 64'(issue)", "stamp_q"),
    (W, "acknowledge && m_axi_bresp[1]", "1'b0"),
    (W, "open_q <= CountBits'(Writes - 4)", "1'b1"),
    (M, "pending.epoch == control_i.epoch", "1'b1"),
    (M, "now_ns_i < control_i.lease_until_ns", "1'b1"),
    (M, "match_i.epoch == control_i.epoch[7:0]", "1'b1"),
    (M, "left_q < LeftBits'(Decisions)", "1'b1"),
    (M, "!pending.reads || result_valid", "1'b1"),
    (M, "clear ? '0 : found_generation", "found_generation"),
    (L, "(line_write_i && line_index_i[1:0] == 2'(way)) || line_clear_i",
     "line_write_i && line_index_i[1:0] == 2'(way)"),
    (C, "lines_done_i && !is_line_on_way", "1'b1"),
]

SELECTION = """
package ls_mutant_pkg;
  function automatic int read();
    int file, number, count;
    number = 0;
    file = $fopen("{path}", "r");
    count = $fscanf(file, "%d", number);
    $fclose(file);
    return number;
  endfunction
  int selected = read();
endpackage
"""


def build():
    """Builds the model with all mutants; number 0 is the unchanged design."""
    shutil.rmtree(OUT / "rtl", ignore_errors=True)
    shutil.copytree(ROOT / "rtl", OUT / "rtl")
    (OUT / "selected").write_text("0\n")
    (OUT / "rtl/ls_mutant_pkg.sv").write_text(SELECTION.format(path=OUT / "selected"))
    for number, (name, text, replacement) in enumerate(MUTANTS, 1):
        path = OUT / "rtl" / name
        source = path.read_text()
        assert source.count(text) == 1, f"mutant {number}: {name} has {source.count(text)} places with {text!r}"
        chosen = f"(ls_mutant_pkg::selected == {number} ? ({replacement}) : ({text}))"
        path.write_text(source.replace(text, chosen))
    own = {"RTL_SOURCE": str(OUT / "rtl"), "RTL_SIM_DIR": str(OUT / "sim"), "RTL_SIM_OPTIMIZE": "-O1"}
    command = ["bash", "scripts/rtl-sim.sh", "memory", "-Wno-fatal", "ls_mutant_pkg.sv"]
    subprocess.run(command, cwd=ROOT, env=os.environ | own, check=True)


def passes(number: int, *tests: str) -> bool:
    (OUT / "selected").write_text(f"{number}\n")
    own = {"RTL_SIM_DIR": str(OUT / "sim"), "RTL_DIFF_LINE_BITS": "12", "RTL_DIFF_FRAMES": "1000"}
    command = ["target/rtl-venv/bin/pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    return subprocess.run(command, cwd=ROOT, env=os.environ | own, capture_output=True, check=False).returncode == 0


def main() -> int:
    chosen = [int(argument) for argument in sys.argv[1:]] or range(1, len(MUTANTS) + 1)
    build()
    if not passes(0, "rtl/tb/memory", "rtl/tb/diff"):
        print("rtl-mutants: the unchanged design does not pass", file=sys.stderr)
        return 2
    missed = []
    for number in chosen:
        name, text, replacement = MUTANTS[number - 1]
        found = next((test for test in ["memory", "diff"] if not passes(number, f"rtl/tb/{test}")), "NOT FOUND")
        print(f"mutant {number}: {found}: {name}: {text!r} -> {replacement!r}", flush=True)
        if found == "NOT FOUND":
            missed.append(number)
    print(f"rtl-mutants: {len(chosen) - len(missed)} of {len(chosen)} found; not found: {missed}")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
