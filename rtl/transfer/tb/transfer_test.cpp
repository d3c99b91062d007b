// SPDX-License-Identifier: Apache-2.0
//
// Test of ls_transfer_store: random operations and orders against two references. One is a plain map of accounts, whose
// buckets come from the hash of the XDP program (xdp/hash.h); the other one is the execution of the XDP program itself
// (xdp_oracle.c). Every result, record and response is compared, and at the end of each scenario the memories, cell by
// cell. Usage: transfer_test [operations in each random scenario] [seed]

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <vector>

#include "Vls_transfer_shell.h"
#include "verilated.h"

#include "transfer_model.h"

// The execution of the XDP program (xdp_oracle.c).
extern "C" {
void oracle_reset(const __u64 key[3]);
ls_transfer_cell *oracle_cell(__u32 index);
ls_transfer_paper *oracle_paper(__u32 index);
__u64 *oracle_credit();
const ls_transfer_record *oracle_record(__u64 *head);
int oracle_run(__u32 command, const __u64 source[2], const __u64 destination[2], __u64 amount, int is_paper,
               __u32 number, int in_session, __u32 *code, __u64 *reply);
int oracle_refer(const __u64 id[2], __u64 *balance, __u64 *held, __u64 *version, __u32 *is_frozen);
}

namespace {

// ----------------------------------------------------------------------------------------------------- test bench
void put_id(VlWide<4> &port, const Id &id) {
  port[0] = u32(id.first);
  port[1] = u32(id.first >> 32);
  port[2] = u32(id.second);
  port[3] = u32(id.second >> 32);
}

template <typename Port>
Id get_id(const Port &port, int at = 0) {
  return {port[at] | u64(port[at + 1]) << 32, port[at + 2] | u64(port[at + 3]) << 32};
}

// Fields of cell_t and their widths, from the low bits up.
struct Field {
  u64 value;
  int bits;
};

template <typename Port>
void pack(Port &port, const Account &a) {
  const Field fields[] = {{a.last.reply, 32},  {u64(a.last.code), 4}, {u64(a.last.command), 4}, {a.last.amount, 32},
                          {a.last.destination, 32}, {a.last.number, 32}, {a.claimed, 1}, {a.frozen, 1},
                          {a.version, 64}, {a.held_in, 64}, {a.held_out, 64}, {a.balance, 64}};
  int at = 0;
  memset(&port[0], 0, sizeof port);
  for (const Field &field : fields)
    for (int i = 0; i < field.bits; i++, at++) port[at / 32] |= u32(field.value >> i & 1) << at % 32;
}

template <typename Port>
Account unpack(const Port &port) {
  int at = 0;
  auto take = [&](int bits) {
    u64 value = 0;
    for (int i = 0; i < bits; i++, at++) value |= u64(port[at / 32] >> at % 32 & 1) << i;
    return value;
  };
  Account a;
  a.last.reply = u32(take(32));
  a.last.code = int(take(4));
  a.last.command = int(take(4));
  a.last.amount = u32(take(32));
  a.last.destination = u32(take(32));
  a.last.number = u32(take(32));
  a.claimed = take(1);
  a.frozen = take(1);
  a.version = take(64);
  a.held_in = take(64);
  a.held_out = take(64);
  a.balance = take(64);
  return a;
}

struct Chances {  // of 1,024
  int operation = 1024, result = 1024, record = 1024, order = 0, response = 1024;
  int stall = 0;  // that the records are not taken for 100 cycles
};

class Bench {
 public:
  Vls_transfer_shell top;
  Model model;
  std::mt19937_64 random;
  u64 cycle = 0, accepted = 0, first_accepted = 0, last_accepted = 0, busy = 0, latency = 0;
  u64 orders_done = 0, first_order = 0, last_order = 0;
  std::map<int, u64> codes;

  explicit Bench(u64 seed) : random(seed) {
    Verilated::randReset(2);  // registers and memories begin with random bits
    Verilated::randSeed(int(seed));
    for (u64 &word : model.key) word = random();
    model.key[2] |= 1;
    oracle_reset(reinterpret_cast<const __u64 *>(model.key));
    for (int i = 0; i < 6; i++) top.hash_key_i[i] = u32(model.key[i / 2] >> 32 * (i % 2));
    top.op_valid_i = top.ord_valid_i = top.res_ready_i = top.rec_ready_i = top.rsp_ready_i = 0;
    top.clk_i = top.rst_ni = 0;
    for (int i = 0; i < 4; i++) clock();
    top.rst_ni = 1;
  }

  bool chance(int of_1024) { return int(random() & 1023) < of_1024; }

  // Runs until `count` operations, and all orders of `orders`, are executed.
  template <typename Next, typename NextOrder>
  void run(u64 count, u64 orders, const Chances &chances, Next next, NextOrder next_order) {
    u64 given = 0, ordered = 0, done = 0, done_orders = 0, idle = 0;
    int stalled = 0;
    Operation op;
    Order order;
    bool has_op = false, has_order = false;
    first_accepted = last_accepted = first_order = last_order = 0;
    while (done < count || done_orders < orders || !expected.empty()) {
      if (!has_op && given < count && chance(chances.operation)) {
        op = next();
        op.user = u32(random());
        has_op = true;
        given++;
      }
      if (!has_order && ordered < orders && (chance(chances.order) || given == count)) {
        order = next_order();
        order.user = u32(random());
        has_order = true;
        ordered++;
        if (ordered == orders) order.linked = false;
      }
      if (stalled) stalled--;
      else if (chance(chances.stall)) stalled = 100;
      drive(has_op, op, has_order, order);
      top.res_ready_i = chance(chances.result);
      top.rec_ready_i = !stalled && chance(chances.record);
      top.rsp_ready_i = chance(chances.response);
      top.eval();
      // What happens on this clock edge.
      const bool order_taken = top.order_taken_o;
      if (has_order && top.ord_ready_o) {
        held.push_back(order);
        has_order = false;
      }
      if (order_taken) {
        need(!held.empty(), "the store took an order that was not given");
        slots.push_back({true, {}, held.front(), false, false, cycle});
        held.pop_front();
        if (!first_order) first_order = cycle;
        last_order = cycle;
        orders_done++;
      }
      if (has_op && top.op_ready_o) {
        need(!order_taken, "an operation and an order in one slot");
        need(slots.empty() || !slots.back().order.linked, "an operation between linked orders");
        slots.push_back({false, op, {}, may_be_busy(), must_be_busy(), cycle});
        if (needs_place(op)) open_places++;
        has_op = false;
        if (!first_accepted) first_accepted = cycle;
        last_accepted = cycle;
        accepted++;
      }
      if (top.res_valid_o && top.res_ready_i) {
        results.push_back(result());
        arrivals.push_back(cycle);
        done++;
      }
      if (top.rec_valid_o && top.rec_ready_i) records.push_back(record());
      if (top.rsp_valid_o && top.rsp_ready_i) {
        responses.push_back(response());
        done_orders++;
      }
      const size_t waiting = slots.size();
      compare();
      idle = slots.size() < waiting || slots.empty() ? 0 : idle + 1;
      clock();
      need(idle < 1000, "an operation has no result");
    }
    need(slots.empty() && results.empty() && responses.empty() && records.empty(), "more results than requests");
    for (int i = 0; i < 100; i++) {
      drive(false, op, false, order);
      top.res_ready_i = top.rec_ready_i = top.rsp_ready_i = 1;
      top.eval();
      need(!top.res_valid_o && !top.rec_valid_o && !top.rsp_valid_o, "a result or record that nothing asked for");
      clock();
    }
    check_table();
  }

  // Compares the memories with the model, cell by cell.
  void check_table() {
    for (int cell = 0; cell < kBuckets * kWays; cell++) {
      top.peek_i = cell;
      top.eval();
      auto at = model.cells.find(cell);
      need(top.peek_used_o == (at == model.cells.end() ? 0 : 3), "a cell is used in one table only");
      const ls_transfer_cell *xdp = oracle_cell(cell);
      need((xdp->flags & 1) == (at != model.cells.end()), "XDP: another cell is used");
      if (at == model.cells.end()) continue;
      const Account &account = model.accounts[at->second];
      const ls_transfer_paper *paper = oracle_paper(cell);
      need(xdp->id[0] == at->second.first && xdp->id[1] == at->second.second && xdp->balance == account.balance &&
               xdp->held_out == account.held_out && xdp->held_in == account.held_in &&
               xdp->version == account.version && xdp->flags == 1u + 2 * account.frozen + 4 * account.claimed &&
               paper->last_id == account.last.number && paper->destination == account.last.destination &&
               paper->amount == account.last.amount && paper->reply_amount == account.last.reply &&
               int(paper->command) == (account.last.command | account.last.code << 16),
           "XDP: the contents of a cell differ");
      need(get_id(top.peek_id_o) == at->second && get_id(top.peek_id_o, 4) == at->second, "another account in a cell");
      need(unpack(top.peek_account_o) == account, "the contents of a cell differ");
    }
  }

 private:
  struct Slot {
    bool is_order;
    Operation op;
    Order order;
    bool may_be_busy, must_be_busy;
    u64 cycle;
  };
  std::deque<Slot> slots;
  std::deque<Order> held;
  std::deque<Result> results;
  std::deque<u64> arrivals;
  std::deque<Record> records, expected;
  std::deque<Response> responses;
  u64 recorded = 0;  // records of the operations executed so far
  u64 open_places = 0;  // accepted operations that need a place in the record stream, without a result yet

  void need(bool holds, const char *what) {
    if (holds) return;
    printf("FAILED in cycle %" PRIu64 ": %s\n", cycle, what);
    exit(1);
  }

  void clock() {
    top.clk_i = 1;
    top.eval();
    top.clk_i = 0;
    top.eval();
    cycle++;
  }

  static bool needs_place(const Operation &op) { return op.command != Refer; }
  // Upper bound of the reserved places: with fewer than all, `busy` is wrong.
  bool may_be_busy() const { return open_places + expected.size() >= kRecordPlaces; }
  // All places have a record that is known: anything but `busy` is wrong.
  bool must_be_busy() const { return expected.size() >= kRecordPlaces; }

  void drive(bool has_op, const Operation &op, bool has_order, const Order &order) {
    top.op_valid_i = has_op;
    top.op_user_i = op.user;
    top.op_keep_i = op.keep;
    top.op_is_paper_i = op.paper;
    top.op_refused_i = op.refused;
    top.op_command_i = op.command;
    top.op_number_i = op.number;
    put_id(top.op_source_i, op.source);
    put_id(top.op_destination_i, op.destination);
    top.op_amount_i = op.amount;
    top.ord_valid_i = has_order;
    top.ord_user_i = order.user;
    top.ord_linked_i = order.linked;
    top.ord_kind_i = order.kind;
    put_id(top.ord_id_i, order.id);
    if (has_order) pack(top.ord_account_i, order.account);
  }

  Result result() const {
    return {top.res_user_o,     int(top.res_code_o), bool(top.res_forward_o),       bool(top.res_repeated_o),
            bool(top.res_recorded_o), top.res_balance_o,   top.res_destination_balance_o, top.res_held_o,
            top.res_version_o,  bool(top.res_frozen_o)};
  }
  Record record() const {
    return {top.rec_user_o,
            int(top.rec_code_o),
            int(top.rec_command_o),
            top.rec_number_o,
            get_id(top.rec_source_o),
            get_id(top.rec_destination_o),
            top.rec_amount_o,
            top.rec_source_version_o,
            top.rec_destination_version_o,
            top.rec_source_balance_o};
  }
  Response response() const {
    return {top.rsp_user_o, int(top.rsp_code_o), top.rsp_records_o, unpack(top.rsp_account_o)};
  }

  // Executes in the model what has a result, in the order in which the store accepted it.
  void compare() {
    while (!slots.empty()) {
      const Slot slot = slots.front();
      if (slot.is_order) {
        if (responses.empty()) break;
        const auto place = model.places.find(slot.order.id);
        const int cell = place == model.places.end() ? -1 : place->second;
        Response want = model.run(slot.order);
        order_oracle(slot.order, cell);
        const Response got = responses.front();
        want.records = recorded;
        responses.pop_front();
        if (!(want == got)) {
          printf("order %d: code %d balance %" PRIu64 ", expected code %d balance %" PRIu64 "\n", slot.order.kind,
                 got.code, got.account.balance, want.code, want.account.balance);
          need(false, "a response differs");
        }
      } else {
        if (results.empty()) break;
        const Result got = results.front();
        results.pop_front();
        const auto before = model.total();
        const u64 credit = model.credit;
        // An operation is busy for want of a place in the record stream, or of credit; the model knows the latter.
        bool has_record;
        Record want_record;
        Model &m = model;
        const bool no_place = got.code == Busy && !got.forward && !got.repeated && !lacks_credit(slot.op);
        const Result want = m.run(slot.op, no_place, has_record, want_record);
        if (no_place) {
          busy++;
          need(slot.may_be_busy, "busy, though the record stream had room");
        } else {
          need(!slot.must_be_busy || !needs_place(slot.op) || !has_record, "executed, though the stream was full");
        }
        if (!(want == got)) {
          printf("command %d amount %" PRIu64 " number %u: code %d balance %" PRIu64 " forward %d repeated %d "
                 "recorded %d"
                 ", expected code %d balance %" PRIu64 " forward %d repeated %d recorded %d\n",
                 slot.op.command, slot.op.amount, slot.op.number, got.code, got.balance, got.forward, got.repeated,
                 got.recorded, want.code, want.balance, want.forward, want.repeated, want.recorded);
          need(false, "a result differs");
        }
        if (!no_place) compare_oracle(slot.op, got, has_record, want_record);
        const bool adds = want.code == Done && !want.repeated && !want.forward &&
                          (slot.op.command == Create || slot.op.command == Issue);
        need(model.total() == before + (adds ? slot.op.amount : 0), "the sum of all balances is not conserved");
        need(model.credit <= credit, "the credit grew");
        codes[got.forward ? 100 : got.repeated ? 200 + got.code : got.code]++;
        if (has_record) {
          expected.push_back(want_record);
          recorded++;
        }
        if (needs_place(slot.op)) open_places--;
        latency = arrivals.front() - slot.cycle;
        arrivals.pop_front();
      }
      slots.pop_front();
    }
    while (!records.empty() && !expected.empty()) {
      need(records.front() == expected.front(), "a record differs");
      records.pop_front();
      expected.pop_front();
    }
    // A record may leave before the result of its operation does, but not before the operation was accepted.
    need(records.size() <= kRecordPlaces, "records without operations");
  }

  // Executes the operation in the XDP program's code, and compares the outcome.
  void compare_oracle(const Operation &op, const Result &got, bool has_record, const Record &record) {
    const bool needs_amount = op.command == Transfer || (op.command == Issue && !op.paper);
    const bool bad = op.command < Create || op.command > Unfreeze || (needs_amount && !op.amount);
    if (bad || op.refused) return;  // the XDP program refuses these before it executes
    const __u64 source[2] = {op.source.first, op.source.second};
    const __u64 destination[2] = {op.destination.first, op.destination.second};
    if (op.command == Refer) {
      __u64 balance, held, version;
      __u32 is_frozen;
      const bool exists = oracle_refer(source, &balance, &held, &version, &is_frozen);
      need(exists == (got.code != Unknown), "XDP: REFER finds another account");
      if (!exists) return;
      need(got.code == (op.paper && balance >> 32 ? int(Overflow) : int(Done)), "XDP: another code of REFER");
      need((got.code || got.balance == balance) && got.held == held && got.version == version &&
               got.frozen == bool(is_frozen),
           "XDP: another answer to REFER");
      return;
    }
    __u64 head_before, head;
    __u32 code = 0;
    __u64 reply = 0;
    oracle_record(&head_before);
    const int ran = oracle_run(op.command, source, destination, op.amount, op.paper, op.number, op.keep, &code, &reply);
    const ls_transfer_record *written = oracle_record(&head);
    // TRANSFER_DONE, TRANSFER_REPEATED, TRANSFER_BUSY, TRANSFER_CLAIMED
    need((ran == 3) == got.forward && (ran == 1) == got.repeated, "XDP: another outcome");
    if (ran < 2) need(int(code) == got.code && reply == got.balance, "XDP: another reply");
    else need(got.code == Busy, "XDP: not busy");
    need(head - head_before == has_record, "XDP: another number of records");
    if (has_record) {
      need(written->source_version == record.source_version && written->amount == record.amount &&
               written->destination_version == record.destination_version &&
               written->source_balance == record.source_balance && int(written->command & 0xff) == record.command &&
               int(written->command >> 16) == record.code && written->sequence == record.number,
           "XDP: another record");
    }
  }

  // Does in the XDP program's table what the host does with an order. `before`: cell of the account, or -1.
  void order_oracle(const Order &order, int before) {
    if (order.kind == Grant) {
      *oracle_credit() = model.credit;
      return;
    }
    const auto place = model.places.find(order.id);
    if (place == model.places.end()) {
      if (before < 0) return;
      memset(oracle_cell(before), 0, sizeof *oracle_cell(before));
      memset(oracle_paper(before), 0, sizeof *oracle_paper(before));
      return;
    }
    const Account &a = model.accounts[order.id];
    ls_transfer_cell *cell = oracle_cell(place->second);
    cell->flags = 1 | (a.frozen ? 2 : 0) | (a.claimed ? 4 : 0);
    cell->id[0] = order.id.first;
    cell->id[1] = order.id.second;
    cell->balance = a.balance;
    cell->held_out = a.held_out;
    cell->held_in = a.held_in;
    cell->version = a.version;
    *oracle_paper(place->second) = {a.last.number, a.last.destination, a.last.amount,
                                    __u32(a.last.command | a.last.code << 16), a.last.reply, 0, 0};
  }

  // Returns whether the model would answer `busy` because the credit for numbered refusals is used up.
  bool lacks_credit(const Operation &op) const {
    if (!op.number || model.credit) return false;
    Model copy = model;
    bool has_record;
    Record record;
    const Result result = copy.run(op, false, has_record, record);
    return result.code == Busy && !result.forward;
  }
};

// Account number `n`, in the form of the paper's format for even numbers.
Id account(u32 n) {
  if (n % 2 == 0) return {0, u64(__builtin_bswap32(n)) << 32};
  return {0x9e3779b97f4a7c15 * n, 0xc2b2ae3d27d4eb4f ^ (u64(n) << 17)};
}

struct Mix {
  u32 accounts;
  Chances chances;
  bool numbered;  // numbered requests in the paper's format
  bool orders;
  const char *name;
};

void random_scenario(const Mix &mix, u64 count, u64 seed) {
  Bench bench(seed);
  auto &random = bench.random;
  u32 number = 1, recent = 0;
  Operation sent[4];
  auto pick = [&](u64 n) { return u32(random() % n); };
  auto some_amount = [&]() -> u64 {
    switch (pick(12)) {
      case 0: return 0;
      case 1: return ~u64(0) - pick(4);
      case 2: return 0xffffffffu + u64(pick(3)) - 1;
      case 3: return random();
      default: return pick(200);
    }
  };
  auto next = [&] {
    Operation op;
    // Half of the operations use an account of the last operations: hazards at small distances.
    if (mix.numbered && !pick(8)) return sent[pick(4)];  // the client repeats its request
    const u32 a = pick(2) ? recent : pick(mix.accounts);
    const u32 b = pick(4) ? pick(mix.accounts) : recent;
    recent = pick(2) ? a : b;
    op.source = account(a);
    op.destination = account(b);
    const u32 kind = pick(64);
    op.command = kind < 10  ? Create
                 : kind < 22 ? Issue
                 : kind < 50 ? Transfer
                 : kind < 58 ? Refer
                 : kind < 59 ? Freeze
                 : kind < 62 ? Unfreeze
                 : kind < 63 ? int(pick(16))
                             : Transfer;
    op.amount = some_amount();
    op.paper = pick(2);
    op.keep = !op.paper && pick(2);
    op.refused = pick(64) ? 0 : Unauthorised;
    if (op.command == Refer) op.keep = op.refused = 0;
    if (mix.numbered && op.paper && pick(4)) {
      // Repeated, stale and new numbers.
      op.number = pick(4) ? number++ : std::max(1u, number - pick(6));
      op.amount &= 0xffffffff;
      if (pick(2)) op.amount = 5;
      sent[pick(4)] = op;
    }
    return op;
  };
  auto next_order = [&] {
    Order order;
    order.kind = int(pick(8));
    order.linked = !pick(4);
    if (order.kind == 7) order.kind = Release;
    order.id = account(pick(mix.accounts));
    order.account.balance = order.kind == Grant ? pick(8) : some_amount();
    order.account.held_out = order.account.balance ? random() % order.account.balance >> pick(64) : 0;
    order.account.held_in = ~order.account.balance ? random() % ~order.account.balance >> pick(64) : 0;
    order.account.version = random();
    order.account.frozen = !pick(8);
    order.account.claimed = !pick(8);
    order.account.last = {number, pick(4), 5, Transfer, int(pick(4)), pick(100)};
    return order;
  };
  const u64 orders = mix.orders ? count / 8 : 0;
  Chances chances = mix.chances;
  chances.order = mix.orders ? 200 : 0;
  bench.run(count, orders, chances, next, next_order);
  printf("%-34s %8" PRIu64 " operations, %7" PRIu64 " orders, %7" PRIu64 " busy, %5zu accounts left;", mix.name,
         bench.accepted, bench.orders_done, bench.busy, bench.model.accounts.size());
  for (const auto &[code, n] : bench.codes) printf(" %d:%" PRIu64, code, n);
  printf("\n");
}

// Operations that arrive without a pause on `distance` accounts in turn: cycles for each operation.
void throughput(int distance, u64 count) {
  Bench bench(77 + distance);
  u64 n = 0;
  auto prepare = [&] {
    Operation op;
    op.command = Create;
    op.source = account(u32(n++));
    op.amount = 1000000;
    return op;
  };
  auto no_order = [] { return Order{}; };
  bench.run(u64(distance) + 1, 0, {}, prepare, no_order);
  n = 0;
  auto next = [&] {
    Operation op;
    op.command = Transfer;
    // The same account is paid from, and then paid, at every distance up to `distance`.
    op.source = account(u32(n % distance));
    op.destination = account(u32((n + 1) % (distance + 1)));
    if (op.source == op.destination) op.destination = account(u32(distance));
    op.amount = 1 + n % 7;
    n++;
    return op;
  };
  bench.run(count, 0, {}, next, no_order);
  const double cycles = double(bench.last_accepted - bench.first_accepted) / double(count - 1);
  printf("TRANSFER, hazard distance %d: %.4f cycles an operation, latency %" PRIu64 " cycles\n", distance, cycles,
         bench.latency);
  if (cycles != 2.0 || bench.busy) {
    printf("FAILED: not one operation every 2 cycles\n");
    exit(1);
  }
}

// Orders without operations, and orders between operations without a pause.
void order_rate(bool mixed, u64 count) {
  Bench bench(99);
  u64 n = 0;
  auto next = [&] {
    Operation op;
    op.command = Issue;
    op.source = account(u32(n++ % 5));
    op.amount = 1;
    return op;
  };
  auto next_order = [&] {
    Order order;
    order.kind = Fill;
    order.id = account(u32(bench.random() % 8));
    order.account.balance = 5;
    return order;
  };
  Chances chances;
  chances.order = 1024;
  bench.run(mixed ? count : 0, count, chances, next, next_order);
  const double cycles = double(bench.last_order - bench.first_order) / double(count - 1);
  printf("fills %s: %.4f cycles a fill (%.1f million a second at 250 MHz)\n",
         mixed ? "between operations" : "alone", cycles, 250 / cycles);
}

}  // namespace

int main(int argc, char **argv) {
  const u64 count = argc > 1 ? strtoull(argv[1], nullptr, 0) : 250000;
  const u64 seed = argc > 2 ? strtoull(argv[2], nullptr, 0) : 1;
  printf("%d buckets of %d cells\n", kBuckets, kWays);
  const Mix mixes[] = {
      {2, {}, false, false, "2 accounts, no pauses"},
      {3, {}, true, false, "3 accounts, numbered"},
      {8, {}, true, true, "8 accounts, numbered, orders"},
      {5, {700, 500, 700, 0, 300, 10}, true, true, "5 accounts, pauses, stalls, orders"},
      {4, {1024, 1024, 120, 0, 1024, 0}, false, false, "4 accounts, slow record stream"},
      {kBuckets * 6u, {}, true, true, "more accounts than cells"},
      {kBuckets * 12u, {900, 900, 900, 0, 900, 2}, false, false, "many more accounts than cells"},
  };
  u64 n = seed;
  for (const Mix &mix : mixes) random_scenario(mix, count, n++);
  for (int distance = 1; distance <= 8; distance++) throughput(distance, 5000);
  order_rate(false, 2000);
  order_rate(true, 2000);
  printf("PASSED\n");
  return 0;
}
