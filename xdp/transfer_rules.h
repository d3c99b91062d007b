// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Effect of an operation on the balances of accounts: the C twin of crates/transfer/src/rules.rs. A refused operation
 * changes nothing.
 */
#pragma once
#include "transfer_cell.h"

/* Adds `amount` to the balance, if the sum is at most `limit` and leaves room for pending amounts. */
static __always_inline enum ls_transfer_code transfer_add(struct transfer_holding *to, __u64 amount, __u64 limit)
{
	__u64 sum = to->balance + amount;

	if (sum < amount || sum > limit || sum + to->held_in < sum)
		return LS_TRANSFER_CODE_OVERFLOW;
	to->balance = sum;
	return LS_TRANSFER_CODE_DONE;
}

static __always_inline enum ls_transfer_code transfer_issue(struct transfer_holding *to, __u64 amount, __u64 limit)
{
	if (to->flags & LS_TRANSFER_CELL_FROZEN)
		return LS_TRANSFER_CODE_FROZEN;
	return transfer_add(to, amount, limit);
}

static __always_inline enum ls_transfer_code transfer_move(struct transfer_holding *from, struct transfer_holding *to,
							   __u64 amount, __u64 limit)
{
	__u64 left = from->balance - amount;

	if ((from->flags | to->flags) & LS_TRANSFER_CELL_FROZEN)
		return LS_TRANSFER_CODE_FROZEN;
	if (amount > from->balance - from->held_out)
		return LS_TRANSFER_CODE_INSUFFICIENT_FUNDS;
	/* The paper's reply has 32 bits for the sender's new balance, so a balance above `limit` refuses the transfer. */
	if (left > limit || transfer_add(to, amount, limit))
		return LS_TRANSFER_CODE_OVERFLOW;
	from->balance = left;
	return LS_TRANSFER_CODE_DONE;
}

/* Executes a command that concerns one existing account only. */
static __always_inline enum ls_transfer_code transfer_alone(__u32 command, struct transfer_holding *holding,
							    __u64 amount, __u64 limit)
{
	switch (command) {
	case LS_TRANSFER_COMMAND_CREATE:
		return LS_TRANSFER_CODE_ACCOUNT_EXISTS;
	case LS_TRANSFER_COMMAND_ISSUE:
		return transfer_issue(holding, amount, limit);
	case LS_TRANSFER_COMMAND_FREEZE:
		holding->flags |= LS_TRANSFER_CELL_FROZEN;
		return LS_TRANSFER_CODE_DONE;
	default:
		holding->flags &= ~LS_TRANSFER_CELL_FROZEN;
		return LS_TRANSFER_CODE_DONE;
	}
}

/*
 * Returns 1 for a valid plain operation: checks the command, the fields that must be zero, and the amount of an ISSUE
 * or TRANSFER, which must not be. Called only for operations whose flags and contract are 0.
 */
static __always_inline int transfer_is_operation(const struct ls_operation *operation)
{
	const __u64 *destination = (const void *)operation->destination;
	__u32 command = operation->command;
	__u64 zero = operation->code | operation->number | operation->timeout_s;

	if (command < LS_TRANSFER_COMMAND_CREATE || command > LS_TRANSFER_COMMAND_UNFREEZE ||
	    command == LS_TRANSFER_COMMAND_REFER)
		return 0;
	if ((command == LS_TRANSFER_COMMAND_ISSUE || command == LS_TRANSFER_COMMAND_TRANSFER) && !operation->amount)
		return 0;
	if (command != LS_TRANSFER_COMMAND_TRANSFER && command != LS_TRANSFER_COMMAND_CREATE)
		zero |= destination[0] | destination[1];
	if (command > LS_TRANSFER_COMMAND_REFER)
		zero |= operation->amount;
	return !zero;
}
