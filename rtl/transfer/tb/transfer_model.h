// SPDX-License-Identifier: Apache-2.0
//
// Reference model of the store of `transfer` for transfer_test.cpp: a plain map of accounts, whose buckets come from
// the hash of the XDP program (xdp/hash.h), and the operations, orders and results that the test compares.

#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif
#include "../../../xdp/hash.h"
#define _Static_assert static_assert
#include "../../../xdp/generated.h"

#ifndef BUCKET_BITS
#define BUCKET_BITS 3
#endif

namespace {

using u64 = uint64_t;
using u32 = uint32_t;
using Id = std::pair<u64, u64>;

enum Code { Done, Unknown, Exists, Insufficient, Overflow, Same, Full, Stale, Busy, Frozen, Bad, Reused, Unauthorised };
enum Command { Create = 1, Issue, Transfer, Refer, Freeze, Unfreeze };
enum Kind { Read, Fill, Put, Remove, Claim, Release, Grant };
constexpr int kWays = 4, kBuckets = 1 << BUCKET_BITS, kRecordPlaces = 16;

struct Last {
  u32 number = 0, destination = 0, amount = 0;
  int command = 0, code = 0;
  u32 reply = 0;
  bool operator==(const Last &) const = default;
};

struct Account {
  u64 balance = 0, held_out = 0, held_in = 0, version = 0;
  bool frozen = false, claimed = false;
  Last last;
  bool operator==(const Account &) const = default;
};

struct Operation {
  u32 user = 0;
  bool keep = false, paper = false;
  int refused = 0, command = 0;
  u32 number = 0;
  Id source, destination;
  u64 amount = 0;
};

struct Order {
  u32 user = 0;
  bool linked = false;
  int kind = 0;
  Id id;
  Account account;
};

struct Result {
  u32 user = 0;
  int code = 0;
  bool forward = false, repeated = false, recorded = false;
  u64 balance = 0, destination_balance = 0, held = 0, version = 0;
  bool frozen = false;
  bool operator==(const Result &) const = default;
};

struct Record {
  u32 user = 0;
  int code = 0, command = 0;
  u32 number = 0;
  Id source, destination;
  u64 amount = 0, source_version = 0, destination_version = 0, source_balance = 0;
  bool operator==(const Record &) const = default;
};

struct Response {
  u32 user = 0;
  int code = 0;
  u64 records = 0;
  Account account;
  bool operator==(const Response &) const = default;
};

// ------------------------------------------------------------------------------------------------- reference model
class Model {
 public:
  u64 key[3] = {};
  std::map<Id, Account> accounts;
  std::map<int, Id> cells;  // account of each used cell
  std::map<Id, int> places;
  u64 credit = 0;

  void buckets(const Id &id, int out[2]) const {
    const __u64 words[2] = {id.first, id.second};
    const __u64 hash = ls_hash(words, reinterpret_cast<const __u64 *>(key));
    out[0] = int(hash >> (64 - BUCKET_BITS));
    out[1] = int((hash >> (64 - 2 * BUCKET_BITS)) & (kBuckets - 1));
    if (out[0] == out[1]) out[1] ^= 1;
  }

  // Returns the free cell in which a new account is stored, or -1.
  int vacancy(const Id &id) const {
    int bucket[2], used[2] = {}, vacant[2] = {-1, -1};
    buckets(id, bucket);
    for (int b = 0; b < 2; b++)
      for (int way = kWays - 1; way >= 0; way--) {
        if (cells.count(bucket[b] * kWays + way)) used[b]++;
        else vacant[b] = bucket[b] * kWays + way;
      }
    return vacant[used[0] >= 2 && used[0] > used[1] ? 1 : 0];
  }

  void insert(const Id &id, int cell, const Account &account) {
    accounts[id] = account;
    cells[cell] = id;
    places[id] = cell;
  }

  // Executes an operation. `has_record` is true if `record` is written.
  Result run(const Operation &op, bool is_busy, bool &has_record, Record &record) {
    Result result;
    result.user = op.user;
    has_record = false;
    record = {op.user, 0, op.command, op.number, op.source, op.destination, op.amount, 0, 0, 0};
    if (is_busy) {
      result.code = Busy;
      return result;
    }
    const bool needs_amount = op.command == Transfer || (op.command == Issue && !op.paper);
    const bool bad = op.command < Create || op.command > Unfreeze || (needs_amount && !op.amount);
    const u64 limit = op.paper ? 0xffffffffu : ~u64(0);
    if (bad || op.refused) return refuse(op, bad ? int(Bad) : op.refused, result, has_record, record);
    auto at = accounts.find(op.source);
    if (op.command == Refer) {
      if (at == accounts.end()) {
        result.code = Unknown;
        return result;
      }
      result.code = at->second.balance > limit ? Overflow : Done;
      result.balance = result.code ? 0 : at->second.balance;
      result.held = at->second.held_out;
      result.version = at->second.version;
      result.frozen = at->second.frozen;
      return result;
    }
    if (at == accounts.end()) {
      if (op.command != Create) return refuse(op, Unknown, result, has_record, record);
      if (op.amount > limit) return refuse(op, Overflow, result, has_record, record);
      const int cell = vacancy(op.source);
      if (cell < 0) return refuse(op, Full, result, has_record, record);
      Account account;
      account.balance = result.balance = op.amount;
      account.version = 1;
      if (op.number) account.last = remember(op, Done, op.amount);
      insert(op.source, cell, account);
      record.source_version = 1;
      record.source_balance = op.amount;
      has_record = result.recorded = true;
      return result;
    }
    Account &from = at->second;
    auto other = op.command == Transfer && op.source != op.destination ? accounts.find(op.destination)
                                                                       : accounts.end();
    Account *to = other == accounts.end() ? nullptr : &other->second;
    if (from.claimed || (to && to->claimed)) {
      result.code = Busy;
      result.forward = true;
      return result;
    }
    if (op.number && from.last.number && op.number <= from.last.number) {
      const Last &last = from.last;
      result.repeated = true;
      if (op.number < last.number) result.code = Stale;
      else if (u32(op.destination.second >> 32) != last.destination || u32(op.amount) != last.amount ||
               op.command != last.command)
        result.code = Reused;
      else {
        result.code = last.code;
        result.balance = last.reply;
      }
      return result;
    }
    const int code = effect(op, from, to, limit);
    if (code && op.number && !credit) {
      result.code = Busy;
      return result;
    }
    if (code && op.number) credit--;
    result.code = record.code = code;
    if (!code) {
      result.balance = record.source_balance = from.balance;
      if (to) {
        result.destination_balance = to->balance;
        record.destination_version = ++to->version;
      }
    }
    if (!code || op.number) {
      record.source_version = ++from.version;
      if (op.number) from.last = remember(op, code, result.balance);
    }
    has_record = result.recorded = !code || op.number || op.keep;
    return result;
  }

  Response run(const Order &order) {
    Response response;
    response.user = order.user;
    auto at = accounts.find(order.id);
    const bool found = at != accounts.end();
    switch (order.kind) {
      case Grant:
        credit += order.account.balance;
        response.account.balance = credit;
        return response;
      case Fill:
      case Put: {
        Account account = order.account;
        if (order.kind == Put) account.last = found ? at->second.last : Last{};
        const int cell = found ? places[order.id] : vacancy(order.id);
        if (cell < 0) {
          response.code = Full;
          return response;
        }
        insert(order.id, cell, account);
        response.account = account;
        return response;
      }
      default:
        break;
    }
    if (!found) {
      response.code = Unknown;
      return response;
    }
    if (order.kind == Claim) at->second.claimed = true;
    if (order.kind == Release) at->second.claimed = false;
    response.account = at->second;
    if (order.kind == Remove) {
      cells.erase(places[order.id]);
      places.erase(order.id);
      accounts.erase(at);
    }
    return response;
  }

  // Sum of all balances, modulo 2^128.
  unsigned __int128 total() const {
    unsigned __int128 sum = 0;
    for (const auto &[id, account] : accounts) sum += account.balance;
    return sum;
  }

 private:
  static Last remember(const Operation &op, int code, u64 reply) {
    return {op.number, u32(op.destination.second >> 32), u32(op.amount), op.command, code, u32(reply)};
  }

  static Result refuse(const Operation &op, int code, Result result, bool &has_record, Record &record) {
    result.code = record.code = code;
    has_record = result.recorded = op.keep && op.command != Refer;
    return result;
  }

  // Adds, or returns an overflow.
  static int add(Account &to, u64 amount, u64 limit) {
    const unsigned __int128 sum = (unsigned __int128)to.balance + amount;
    if (sum > limit || sum + to.held_in > ~u64(0)) return Overflow;
    to.balance = u64(sum);
    return Done;
  }

  static int effect(const Operation &op, Account &from, Account *to, u64 limit) {
    switch (op.command) {
      case Create:
        return Exists;
      case Issue:
        return from.frozen ? int(Frozen) : add(from, op.amount, limit);
      case Transfer:
        if (op.source == op.destination) return Same;
        if (!to) return Unknown;
        if (from.frozen || to->frozen) return Frozen;
        if (op.amount > from.balance - from.held_out) return Insufficient;
        if (from.balance - op.amount > limit || add(*to, op.amount, limit)) return Overflow;
        from.balance -= op.amount;
        return Done;
      case Freeze:
        from.frozen = true;
        return Done;
      default:
        from.frozen = false;
        return Done;
    }
  }
};

}  // namespace
