# SPDX-License-Identifier: Apache-2.0
"""Changes the RTL of `transfer` by textual rules, one at a time, and checks that the simulation or a proof finds each
change.

Run by scripts/test-rtl-transfer.sh mutants. Arguments: the work directory, then numbers of mutants (default: all).
There are two simulations: that of the store, and that of the NIC with the tests in rtl/tb/transfer. One build has all
mutants of its files, and a file chooses one of them for each run, which stops at the first difference. A mutant that
no simulation finds is given to the proof of its module, and so are the mutants of the files that have no simulation
here. The script fails if neither finds it. Results are added to rtl/transfer/mutants.csv as they come.
"""

import csv
import os
import shutil
import subprocess
import sys
from pathlib import Path

TABLE = Path("mutants.csv")
COLUMNS = ["mutant", "file", "text", "replacement", "description", "found by"]
OPERATIONS = 4000  # of the store, in each random scenario
BUCKETS = "3"  # of the store, in bits
FRAMES = "2000"  # of the NIC, in each case of random frames

# File, text (which must occur once), replacement, description. A text is an expression, or it is statements that end
# with a semicolon. Texts of different mutants are equal or do not overlap.
EXECUTE, SEARCH, STORE = (f"ls_transfer_{name}.sv" for name in ("execute", "search", "store"))
REQUEST, REPLY, SUM, RECORDS = (f"ls_transfer_{name}.sv" for name in ("request", "reply", "sum", "records"))
SESSION, COMMANDS = (f"ls_transfer_{name}.sv" for name in ("session", "commands"))
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
    (REQUEST, "is_create || words_0[8*OperationDestinationAt+:128] == '0", "is_create || 1'b1",
     "an operation with one account has a second one"),
    (REQUEST, "words_0[8*OperationTimeoutSAt+:32] == '0 &&", "", "an operation with a time limit is executed"),
    (REQUEST, "&& words_0[8*OperationContractAt+:32] == '0;", ";", "an operation of a contract is plain"),
    (REQUEST, "payload_0[ItemAt+8*BalanceItemBalanceAt+:8*(BalanceItemBytes-BalanceItemBalanceAt)] == '0",
     "payload_0[ItemAt+8*BalanceItemBalanceAt+:8*(BalanceItemBytes-BalanceItemBalanceAt-1)] == '0",
     "the last byte of an item of `refer` is ignored"),
    (REQUEST, "parsed_d.operation.destination[IdBits-1-:PaperBits] = payload[8*PaperTransferDestinationAt+:32];",
     "parsed_d.operation.destination[IdBits-1-:PaperBits] = payload[8*PaperTransferSourceAt+:32];",
     "the destination is the source"),
    (REQUEST, "payload[HeadAt+8*ExecuteHeadSlotAt+:32]", "payload[HeadAt+8*ExecuteHeadTokenAt+:32]",
     "the slot of a session is a part of its token"),
    (REQUEST, "!(parsed_d.filler[1] && flags_q.has_trailer)", "1'b1", "the second byte of a filler is ignored"),
    (REQUEST, "control_i.issuers[i] && parts_in_range_q[i] == '1", "parts_in_range_q[i] == '1",
     "a range of issuers that is not in use counts"),
    (REQUEST, "{datagram_i.source[31:0], 16'hffff, 80'd0}", "{datagram_i.source[31:0], 96'd0}",
     "an IPv4 address is compared as another IPv6 address"),
    (REQUEST, "{bytes[7:0] & {8{counts[0]}}, bytes[15:8] & {8{counts[1]}}}", "{bytes[7:0], bytes[15:8]}",
     "bytes after the payload count"),
    (REQUEST, "is_write && !is_express", "!is_express", "a REFER of the paper's format in `durable` goes to the host"),
    (REQUEST, "reason_d = DropReplyBit;", "reason_d = DropPaperRefused;", "a drop has another reason"),
    (REQUEST, "is_express && (is_write || parsed_3.is_execute)", "is_express && is_write",
     "a session's request with a wrong checksum is executed"),
    (REQUEST, "has_check_q && (folded_q == '1 || is_pseudo_q)", "folded_q == '1 || is_pseudo_q",
     "a checksum of 0 is accepted"),
    (REQUEST, "parsed.is_execute && request_d.outcome == OutcomeStore", "parsed.is_execute",
     "a forwarded request is of a session"),
    (REPLY, "counts_d[TransferCounterRingFull] = result_q.is_full;", "", "a full ring is not counted"),
    (REPLY, "mode_i != ModeExpress && code_d == CodeUnknownAccount", "1'b0",
     "in `durable` mode, an account that is not in the table is unknown"),
    (REPLY, "words_d[OperationAt+OperationAmountAt/2+3-i] = balance[16*i+:16];",
     "words_d[OperationAt+OperationAmountAt/2+i] = balance[16*i+:16];", "the words of a balance are swapped"),
    (REPLY, "mask_d[ItemAt+BalanceItemBalanceAt/2+:(BalanceItemReservedAt-BalanceItemBalanceAt)/2] = '1;",
     "mask_d[ItemAt+BalanceItemBalanceAt/2+:(BalanceItemReservedAt-BalanceItemBalanceAt)/2+1] = '1;",
     "one word more is replaced"),
    (REPLY, "form_i.filler[0] ? word_t'(form_i.trailer) : '0", "'0", "the byte after the payload is cleared"),
    (REPLY, "word_t'(mode_i) + word_t'(result_q.frozen)", "word_t'(mode_i)", "the checksum lacks the frozen mark"),
    (REPLY, "is_status ? form_i.operation_sum : word_t'(code)", "is_status ? '0 : word_t'(code)",
     "the checksum lacks what a status keeps"),
    (REPLY, "body_mask_d[VlanShift+i] = mask_2_q[i];", "body_mask_d[i] = mask_2_q[i];",
     "the words behind a VLAN tag are others"),
    (REPLY, "keeps_ip_q ? headers_q[1].ip_check : ~fold(32'(ip_sum_q))", "~fold(32'(ip_sum_q))",
     "the header checksum of a reply with the same hop limit is computed"),
    (REPLY, "if (decision_q.udp_check == '0) decision_o.udp_check <= '1;", "", "a reply has no UDP checksum"),
    (SUM, "KeyStep * 64'(word + 1)", "KeyStep * 64'(word + 2)", "the keys of the words are others"),
    (SUM, "{2'd0, at_18_q, 1'b0}", "{3'd0, at_18_q}", "a part of a product is halved"),
    (SUM, "addends[2*i] + addends[2*i+1]", "addends[2*i]", "half of the products are lost"),
    (SUM, "localparam int unsigned Latency = 4 + Levels;", "localparam int unsigned Latency = 5 + Levels;",
     "a sum is that of the words after"),
    (RECORDS, "record_valid_i && next_joined_ready;", "next_joined_ready;", "extra fields are lost"),
    (RECORDS, "m_axis_tvalid && m_axis_tready && out.last", "m_axis_tvalid && out.last",
     "a place is free before its record has left"),
    (RECORDS, "next_joined.nonce = extra.nonce;", "next_joined.nonce = extra.slot;", "a record has a wrong field"),
    (RECORDS, "else if (next_valid && next_ready) is_second_q", "else if (next_valid) is_second_q",
     "a record is cut if the host pauses"),
    (RECORDS, ".ready_i(next_ready && is_second_q)", ".ready_i(next_ready)", "a record is one beat long"),
    (SESSION, "valid_q[age_q] && sure_q[age_q]", "valid_q[age_q]",
     "a request does not wait for the one before, which the host may have to execute"),
    (SESSION, "(is_full_i || !is_leased_i)", "!is_leased_i",
     "a request without a place for its record uses its number"),
    (SESSION, "(is_full_i || !is_leased_i)", "is_full_i", "a request without a lease uses its number"),
    (SESSION, "is_recent_q ? next_sequences[newest] : content.session_sequence", "content.session_sequence",
     "requests under way are not seen"),
    (SESSION, "is_token_q != '1", "is_token_q[0] != 1'b1", "half of the token decides"),
    (SESSION, "head_q.slot < sessions_i && head_q.token != '0", "head_q.slot < sessions_i",
     "a closed session takes requests with the token 0"),
    (SESSION, "head_q.slot < sessions_i && (head_q.slot >> SessionBits) != '0", "1'b0",
     "a session of the host without a place in the table is another session"),
    (SESSION, "is_claimed_q <= content.claimed;", "is_claimed_q <= 1'b0;", "a claimed session is served"),
    (SESSION, "content.count == 16'd1", "1'b1", "a request of one operation repeats one of several"),
    (SESSION, "left_session_i.sum == left_replay_i.sum", "1'b1", "a repetition may have another body than the request"),
    (SESSION, "left_session_i.sum == remembered.sum", "1'b1",
     "a repetition may have another body than a request under way"),
    (SESSION, "left_replay_i.is_recent ? remembered.amount : left_session_i.amount", "left_session_i.amount",
     "a repetition of a request under way has an older amount"),
    (SESSION, "if (!done_writes_q) valid_d[i] = 1'b0;", "", "a request that the host executes counts as executed"),
    (SESSION, "if (write && state_q == StateOrderWrite) valid_d = '0;", "",
     "an order does not replace recent requests"),
    (SESSION, "written.token = tokens[done_place_q];", "written.token = done_session_q.token;",
     "a session loses its token"),
    (SESSION, "order_q.writes_claim ? order_q.session.claimed : read.claimed", "order_q.session.claimed",
     "an order without a claim ends the claim"),
    (SESSION, "order_q.writes ? order_q.session : read", "order_q.session", "an order for a claim clears the session"),
    (SESSION, "!is_leased_i && !(out.about.outcome inside {OutcomeForward, OutcomeDrop})",
     "!is_leased_i && out.about.outcome == OutcomeStore", "repetitions are answered without a lease"),
    (SESSION, "left_unsure_q <= leaves && out.replay.is_counted && may_forward_i;", "left_unsure_q <= 1'b0;",
     "it is always sure that a request is executed"),
    (SESSION, "first_q == next_q && outs_q == '0", "outs_q == '0", "an order overtakes requests under way"),
    (SESSION, "!is_zero_q && is_last_q == '1", "is_last_q == '1", "the number 0 is a repetition"),
    (SESSION, "(order_q.slot >> SessionBits) == '0", "1'b1",
     "an order about a session without a place changes another one"),
    (COMMANDS, "s_command_i.index[31:RegisterIndexBits] == '0", "1'b1",
     "the high bits of a register's index are ignored"),
    (COMMANDS, "order_o.linked = selected_q.first[FlagLinked];", "order_o.linked = 1'b0;",
     "linked orders are executed one by one"),
    (COMMANDS, "order_o.account.frozen = selected_q.first[FlagFrozen];", "order_o.account.frozen = 1'b0;",
     "the host cannot freeze an account"),
    (COMMANDS, "clears_last_q <= rst_ni && order_valid_o && order_ready_i && is_fill_q;", "clears_last_q <= 1'b0;",
     "an account is filled with the last request of the one before"),
    (COMMANDS, "last_q.code <= code_e'(selected_q.first[19:16]);", "last_q.code <= CodeDone;",
     "a last request that was refused counts as done"),
    (COMMANDS, "session_order_o.session.count = selected_q.first[23:8];", "session_order_o.session.count = 16'd1;",
     "the host cannot write a request of several operations"),
    (COMMANDS, "session_order_o.session.code = code_e'(selected_q.first[27:24]);",
     "session_order_o.session.code = CodeDone;", "the host cannot write a refused request"),
    (COMMANDS, "session_order_o.writes_claim = selected_q.first[FlagWritesClaim];",
     "session_order_o.writes_claim = 1'b1;", "each order about a session changes its claim"),
    (COMMANDS, "if (select_q.issuers) control_o.issuers <= written_q[RegisterTransferIssuersBits-1:0];", "",
     "no range of issuers is in use"),
    (COMMANDS, "RegisterIndexBits'(RegisterTransferIssuer + i)", "RegisterIndexBits'(RegisterTransferIssuer)",
     "all ranges of issuers are the first one"),
    (COMMANDS, "order_valid_o ? !order_ready_i : !session_order_ready_i", "!order_ready_i",
     "an order about a session is not held until it is taken"),
    (COMMANDS, "!barrier_pending && !(valid_q && kind_q.is_barrier)", "!barrier_pending",
     "a command may overtake a barrier"),
]
# Files of which the simulations have all mutants.
STORE_FILES = {EXECUTE, SEARCH, STORE, FIFO, RAM}
NIC_FILES = {SESSION, COMMANDS}
NIC_TESTS = [f"rtl/tb/transfer/test_transfer_{name}.py" for name in
             ("hazards", "reset", "vectors", "diff", "responses")]
# Proofs that are about a file.
PROOF = {name: name.removesuffix(".sv") for name in
         (EXECUTE, SEARCH, STORE, REQUEST, REPLY, SUM, RECORDS, SESSION, COMMANDS)}
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
    for name in ("common", "formal", "pipeline"):
        shutil.copytree(f"../{name}", folder / "rtl" / name)
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


def add_mutants(folder, files):
    """Makes all mutants of these files selectable in the copy `folder` of rtl/transfer: the file `selected` has the
    number of one, and -1 selects none. Returns that file."""
    selection = folder / "selected"
    selection.write_text("-1\n")
    (folder / "ls_mutant_pkg.sv").write_text(SELECTION.format(path=selection))
    places = {}
    for number, (name, text, _, _) in enumerate(MUTANTS):
        if name in files:
            places.setdefault((name, text), []).append(number)
    # A replacement may contain the text of another mutant, so that the last place in a file is changed first.
    for (name, text), numbers in sorted(places.items(), key=lambda one: -Path(one[0][0]).read_text().find(one[0][1])):
        changed(Path(name).read_text(), text, text, name)
        source = (folder / name).read_text()
        at = source.find(text)
        (folder / name).write_text(source[:at] + selectable(text, numbers) + source[at + len(text) :])
    return selection


class Simulation:
    """Simulation with the mutants of some files."""

    def __init__(self, selection, command, cwd, seconds, **own):
        self.selection, self.run = selection, lambda: run(command, cwd, seconds, **own)
        if self.finds(-1):
            sys.exit(f"the unchanged RTL does not pass {command}")

    def finds(self, number):
        """Returns if the simulation finds the mutant. A run without an end counts as found."""
        self.selection.write_text(f"{number}\n")
        return self.run() != 0


def build_store(work):
    """Returns the simulation of the store."""
    folder = copy_sources(work / "mutants")
    selection = add_mutants(folder, STORE_FILES)
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
    return Simulation(selection, [str(folder / "sim" / "test"), str(OPERATIONS)], folder, 300)


def build_nic(work):
    """Returns the simulation of the NIC with its tests."""
    copy = work / "mutants-nic"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree("..", copy / "rtl")
    folder = copy / "rtl" / "transfer"
    selection = add_mutants(folder, NIC_FILES)
    sources = folder / "transfer.f"
    sources.write_text("transfer/ls_mutant_pkg.sv\n" + sources.read_text())
    with (copy / "build.log").open("w") as log:
        own = {"RTL_SOURCE": str(copy / "rtl"), "RTL_SIM_DIR": str(copy / "sim"), "RTL_SIM_OPTIMIZE": "-O1"}
        status = subprocess.run(["bash", "../../scripts/rtl-sim.sh", "transfer", "-Wno-fatal"], env=os.environ | own,
                                stdout=log, stderr=log, check=False).returncode
    if status != 0:
        sys.exit(f"the NIC with all mutants does not build; see {copy}/build.log")
    tests = ["pytest", "--quiet", "--exitfirst", "-p", "no:cacheprovider", *NIC_TESTS]
    return Simulation(selection, tests, "../..", 1800, RTL_SIM_TRANSFER_DIR=str(copy / "sim"), RTL_DIFF_FRAMES=FRAMES,
                      PYTHONDONTWRITEBYTECODE="1")


def tasks_of(proof):
    """Returns the names by which scripts/rtl-formal.sh runs each task of a proof by itself."""
    text = Path(f"../formal/{proof}.sby").read_text()
    if not text.startswith("[tasks]"):
        return [proof]
    lines = text.partition("\n\n")[0].splitlines()[1:]
    return [f"{proof}:{line.split()[0]}" for line in lines]


def prove(work, number):
    """Returns if the proof of its module refutes the mutant; a timeout is no answer."""
    name, text, replacement, _ = MUTANTS[number]
    copy = work / f"mutant-{number}"
    folder = copy_sources(copy)
    (folder / name).write_text(changed((folder / name).read_text(), text, replacement, name))
    own = {"RTL_SOURCE": str(copy / "rtl"), "RTL_FORMAL_OUT": str(copy / "proof")}
    # SymbiYosys waits for ever after two tasks of one run have failed, so each task is a run. The proof itself has a
    # limit of time.
    script = ["bash", "../../scripts/rtl-formal.sh"]
    is_refuted = any(run([*script, proof], ".", None, **own) == 1 for proof in tasks_of(PROOF[name]))
    shutil.rmtree(copy)
    return is_refuted


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
    builds = [(STORE_FILES, build_store), (NIC_FILES, build_nic)]
    needed = {MUTANTS[number][0] for number in chosen}
    simulations = {}
    for files, build in builds:
        if files & needed:
            simulations |= dict.fromkeys(files, build(work))
    missed = []
    for number in chosen:
        name, _, _, description = MUTANTS[number]
        found = ""
        if name in simulations and simulations[name].finds(number):
            found = "simulation"
        elif prove(work, number):
            found = f"proof {PROOF[name]}"
        record(number, found)
        print(f"{number:2} {name:24} {description:56} {found or 'NOT FOUND'}", flush=True)
        if not found:
            missed.append(number)
    print(f"{len(chosen) - len(missed)} of {len(chosen)} mutants are found; not found: {missed}")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
