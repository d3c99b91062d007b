/*
 * Native packets of Lineside's service `transfer`, for devices: sessions, in which each packet is executed once, and
 * signed packets. No memory allocation, no I/O, no cryptography but the SHA-256 of lineside_spv.h: the caller sends and
 * receives the packets over UDP, and signs a digest with a function of its own, such as that of a secure element.
 *
 *	uint8_t packet[LINESIDE_SESSION_PACKET_BYTES_MAX];
 *	size_t bytes = lineside_session_open(id, challenge, packet);              // challenge: zeros at first
 *	... send; without a reply, send the same bytes again; then
 *	lineside_session_opened(packet, reply, reply_bytes, challenge, &session); // twice: challenge, then session
 *
 *	bytes = lineside_session_execute(&session, id, operations, 2, NULL, packet, sizeof(packet));
 *	... send; without a reply, send the same bytes again; then
 *	lineside_session_executed(&session, packet, reply, reply_bytes, outcomes, &expected);
 *
 * A device that may lose its power keeps the session and the operations of the unanswered packet in memory that
 * survives. It builds the packet again and sends it: the server executes it if it was not executed before, and repeats
 * its first reply if it was. A signature must then be the same (RFC 6979), or the packet itself must be kept.
 *
 * Request ids are the caller's; a new request needs a new one. Start with a random number, so that an attacker who
 * does not see the packets cannot forge replies.
 */
#ifndef LINESIDE_SESSION_H
#define LINESIDE_SESSION_H

#include "lineside_spv.h"
#include "lineside_wire.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this header. It increases with each change of a structure or function. 2 added is_keyed. */
#define LINESIDE_SESSION_VERSION 2

/* Length of the longest datagram that a server accepts, and maximum numbers of operations in it. */
#define LINESIDE_SESSION_PACKET_BYTES_MAX 1452
#define LINESIDE_SESSION_OPERATIONS_MAX 16
#define LINESIDE_SESSION_SIGNED_OPERATIONS_MAX 14

/* Results: a status of the server, LINESIDE_WIRE_STATUS_..., or: */
#define LINESIDE_SESSION_NOT_OURS (-1) /* not the reply to this request: continue to wait */

struct lineside_session {
	uint32_t slot;
	uint64_t token; /* secret: everybody who has it can use the session */
	uint64_t next;  /* sequence number of the next packet */
};

/* Operation. Zero all fields that are not used. */
struct lineside_operation {
	uint8_t command;         /* LINESIDE_WIRE_TRANSFER_COMMAND_... */
	uint8_t is_linked;       /* 1: executed together with the next operation or not at all */
	uint32_t contract;       /* LINESIDE_WIRE_TRANSFER_CONTRACT_... */
	uint8_t source[16];      /* a number below 2^32 of the paper's format is big-endian after 12 zeros */
	uint8_t destination[16]; /* of a new account: the fingerprint of its owner's key, or zeros */
	uint64_t amount;
	uint64_t timestamp; /* stored, not used */
	uint8_t uuid[16];   /* names a pending transfer, or is the idempotency key */
	uint32_t nonce;     /* stored, not used */
	uint32_t timeout_s; /* of a pending transfer: seconds until it expires; 0: never */
	uint8_t is_keyed;   /* 1: uuid, which is not zero, is an idempotency key: executed once in all sessions */
};

/* Outcome of an operation. */
struct lineside_outcome {
	uint16_t code;    /* LINESIDE_WIRE_TRANSFER_CODE_... */
	uint64_t balance; /* of the source after the operation */
	uint64_t number;  /* of the operation in the ledger; 0: none yet */
};

/* State of an account. */
struct lineside_balance {
	uint16_t code; /* LINESIDE_WIRE_TRANSFER_CODE_DONE or ..._UNKNOWN_ACCOUNT */
	uint16_t is_frozen;
	uint64_t balance;
	uint64_t held; /* reserved by pending transfers */
	uint64_t version;
};

/* Key of the device, and its function that signs. */
struct lineside_signer {
	uint8_t curve;          /* LINESIDE_WIRE_TRANSFER_CURVE_... */
	uint8_t public_key[33]; /* compressed: 2 or 3, then x */
	/*
	 * Writes the ECDSA signature of a digest, r and s in big-endian order, with s at most half the curve's order.
	 * Returns 1, or 0 if it cannot sign.
	 */
	int (*sign)(void *context, const uint8_t digest[32], uint8_t signature[64]);
	void *context;
};

/* ---- integers ---- */

static inline void lineside_session_put(uint8_t *at, uint64_t value, int bytes)
{
	while (bytes-- > 0) {
		at[bytes] = (uint8_t)value;
		value >>= 8;
	}
}

static inline uint64_t lineside_session_get(const uint8_t *at, int bytes)
{
	uint64_t value = 0;

	while (bytes-- > 0)
		value = value << 8 | *at++;
	return value;
}

/* ---- headers ---- */

/* Writes the header of a request with this number of bytes in total. Returns this number. */
static inline size_t lineside_session_head(uint8_t op, uint64_t request_id, size_t bytes, uint8_t *packet)
{
	lineside_session_put(packet + LINESIDE_WIRE_NATIVE_HEADER_MAGIC, LINESIDE_WIRE_NATIVE_MAGIC, 2);
	packet[LINESIDE_WIRE_NATIVE_HEADER_VERSION] = LINESIDE_WIRE_NATIVE_VERSION;
	packet[LINESIDE_WIRE_NATIVE_HEADER_OP] = op;
	lineside_session_put(packet + LINESIDE_WIRE_NATIVE_HEADER_STATUS, 0, 2);
	lineside_session_put(packet + LINESIDE_WIRE_NATIVE_HEADER_LENGTH, bytes - LINESIDE_WIRE_NATIVE_HEADER_BYTES, 2);
	lineside_session_put(packet + LINESIDE_WIRE_NATIVE_HEADER_REQUEST_ID, request_id, 8);
	return bytes;
}

/*
 * Returns the status of the reply to a request, or LINESIDE_SESSION_NOT_OURS. The caller checks that the reply comes
 * from the server's address.
 */
static inline int lineside_session_status(const uint8_t *request, const uint8_t *reply, size_t reply_bytes)
{
	if (reply_bytes < LINESIDE_WIRE_NATIVE_HEADER_BYTES ||
	    memcmp(reply + LINESIDE_WIRE_NATIVE_HEADER_MAGIC, request + LINESIDE_WIRE_NATIVE_HEADER_MAGIC, 3) ||
	    reply[LINESIDE_WIRE_NATIVE_HEADER_OP] !=
		    (request[LINESIDE_WIRE_NATIVE_HEADER_OP] | LINESIDE_WIRE_NATIVE_REPLY_BIT) ||
	    memcmp(reply + LINESIDE_WIRE_NATIVE_HEADER_REQUEST_ID,
		   request + LINESIDE_WIRE_NATIVE_HEADER_REQUEST_ID, 8) ||
	    lineside_session_get(reply + LINESIDE_WIRE_NATIVE_HEADER_LENGTH, 2) !=
		    reply_bytes - LINESIDE_WIRE_NATIVE_HEADER_BYTES)
		return LINESIDE_SESSION_NOT_OURS;
	return (int)lineside_session_get(reply + LINESIDE_WIRE_NATIVE_HEADER_STATUS, 2);
}

/* ---- sessions ---- */

/* Number of bytes of the requests that open, close and query a session. */
#define LINESIDE_SESSION_REQUEST_BYTES (LINESIDE_WIRE_NATIVE_HEADER_BYTES + LINESIDE_WIRE_SESSION_BODY_BYTES)

/* Writes a request about a session, of LINESIDE_SESSION_REQUEST_BYTES bytes. Returns this number. */
static inline size_t lineside_session_request(uint8_t op, uint64_t request_id, const uint8_t challenge[16],
					      const struct lineside_session *session, uint8_t *packet)
{
	uint8_t *body = packet + LINESIDE_WIRE_NATIVE_HEADER_BYTES;

	memset(body, 0, LINESIDE_WIRE_SESSION_BODY_BYTES);
	if (challenge != NULL)
		memcpy(body + LINESIDE_WIRE_SESSION_BODY_CHALLENGE, challenge, 16);
	if (session != NULL) {
		lineside_session_put(body + LINESIDE_WIRE_SESSION_BODY_TOKEN, session->token, 8);
		lineside_session_put(body + LINESIDE_WIRE_SESSION_BODY_SLOT, session->slot, 4);
	}
	return lineside_session_head(op, request_id, LINESIDE_SESSION_REQUEST_BYTES, packet);
}

/*
 * Writes the request that opens a session: first with a challenge of zeros, which the server answers with a challenge,
 * then with that challenge.
 */
static inline size_t lineside_session_open(uint64_t request_id, const uint8_t challenge[16], uint8_t *packet)
{
	return lineside_session_request(LINESIDE_WIRE_TRANSFER_OP_OPEN, request_id, challenge, NULL, packet);
}

/* Writes the request that closes a session. With the status OK or NO_SESSION the session is closed. */
static inline size_t lineside_session_close(uint64_t request_id, const struct lineside_session *session,
					    uint8_t *packet)
{
	return lineside_session_request(LINESIDE_WIRE_TRANSFER_OP_CLOSE, request_id, NULL, session, packet);
}

/* Writes the request for the next sequence number of a session: lineside_session_opened reads the reply, too. */
static inline size_t lineside_session_query(uint64_t request_id, const struct lineside_session *session,
					    uint8_t *packet)
{
	return lineside_session_request(LINESIDE_WIRE_TRANSFER_OP_SESSION, request_id, NULL, session, packet);
}

/*
 * Reads the reply to a request about a session. With LINESIDE_WIRE_STATUS_OK, challenge has the challenge, which is not
 * zeros in the reply to the first request to open, and session the granted or queried session.
 */
static inline int lineside_session_opened(const uint8_t *request, const uint8_t *reply, size_t reply_bytes,
					  uint8_t challenge[16], struct lineside_session *session)
{
	const uint8_t *body = reply + LINESIDE_WIRE_NATIVE_HEADER_BYTES;
	int status = lineside_session_status(request, reply, reply_bytes);

	if (status != LINESIDE_WIRE_STATUS_OK)
		return status;
	if (reply_bytes != LINESIDE_SESSION_REQUEST_BYTES)
		return LINESIDE_SESSION_NOT_OURS;
	memcpy(challenge, body + LINESIDE_WIRE_SESSION_BODY_CHALLENGE, 16);
	session->token = lineside_session_get(body + LINESIDE_WIRE_SESSION_BODY_TOKEN, 8);
	session->slot = (uint32_t)lineside_session_get(body + LINESIDE_WIRE_SESSION_BODY_SLOT, 4);
	session->next = lineside_session_get(body + LINESIDE_WIRE_SESSION_BODY_SEQUENCE, 8);
	return status;
}

/* ---- operations ---- */

static inline void lineside_session_put_operation(const struct lineside_operation *operation, uint8_t *at)
{
	at[LINESIDE_WIRE_OPERATION_COMMAND] = operation->command;
	at[LINESIDE_WIRE_OPERATION_FLAGS] =
		(uint8_t)((operation->is_linked ? LINESIDE_WIRE_TRANSFER_FLAG_LINKED : 0) |
			  (operation->is_keyed ? LINESIDE_WIRE_TRANSFER_FLAG_KEYED : 0));
	lineside_session_put(at + LINESIDE_WIRE_OPERATION_CODE, 0, 2);
	lineside_session_put(at + LINESIDE_WIRE_OPERATION_CONTRACT, operation->contract, 4);
	memcpy(at + LINESIDE_WIRE_OPERATION_SOURCE, operation->source, 16);
	memcpy(at + LINESIDE_WIRE_OPERATION_DESTINATION, operation->destination, 16);
	lineside_session_put(at + LINESIDE_WIRE_OPERATION_AMOUNT, operation->amount, 8);
	lineside_session_put(at + LINESIDE_WIRE_OPERATION_NUMBER, 0, 8);
	lineside_session_put(at + LINESIDE_WIRE_OPERATION_TIMESTAMP, operation->timestamp, 8);
	memcpy(at + LINESIDE_WIRE_OPERATION_UUID, operation->uuid, 16);
	lineside_session_put(at + LINESIDE_WIRE_OPERATION_NONCE, operation->nonce, 4);
	lineside_session_put(at + LINESIDE_WIRE_OPERATION_TIMEOUT_S, operation->timeout_s, 4);
}

/* Writes key and signature of what follows after the signed head. Returns 0 if the device cannot sign. */
static inline int lineside_session_sign(const struct lineside_signer *signer, uint8_t *head, size_t signed_bytes)
{
	static const uint8_t domain[] = { 'l', 'i', 'n', 'e', 's', 'i', 'd', 'e', '/', 't',
					  'r', 'a', 'n', 's', 'f', 'e', 'r', '/', '1' };
	struct lineside_spv_sha256 hash;
	uint8_t digest[32], signature[64];

	lineside_spv_sha256_begin(&hash);
	lineside_spv_sha256_add(&hash, domain, sizeof(domain));
	lineside_spv_sha256_add(&hash, head + LINESIDE_WIRE_SIGNED_HEAD_BYTES, signed_bytes);
	lineside_spv_sha256_end(&hash, digest);
	if (!signer->sign(signer->context, digest, signature))
		return 0;
	memset(head, 0, LINESIDE_WIRE_SIGNED_HEAD_BYTES);
	head[LINESIDE_WIRE_SIGNED_HEAD_CURVE] = signer->curve;
	head[LINESIDE_WIRE_SIGNED_HEAD_KEY_PREFIX] = signer->public_key[0];
	memcpy(head + LINESIDE_WIRE_SIGNED_HEAD_KEY_X, signer->public_key + 1, 32);
	memcpy(head + LINESIDE_WIRE_SIGNED_HEAD_R, signature, 32);
	memcpy(head + LINESIDE_WIRE_SIGNED_HEAD_S, signature + 32, 32);
	return 1;
}

/*
 * Writes the session's next packet with `count` operations, signed if `signer` is not null. Returns its length; 0 if
 * there is no operation, if the packet does not fit `room` bytes, or if the device cannot sign.
 */
static inline size_t lineside_session_execute(const struct lineside_session *session, uint64_t request_id,
					      const struct lineside_operation *operations, size_t count,
					      const struct lineside_signer *signer, uint8_t *packet, size_t room)
{
	size_t head_bytes = LINESIDE_WIRE_NATIVE_HEADER_BYTES + (signer ? LINESIDE_WIRE_SIGNED_HEAD_BYTES : 0);
	size_t most = signer ? LINESIDE_SESSION_SIGNED_OPERATIONS_MAX : LINESIDE_SESSION_OPERATIONS_MAX, i;
	size_t body_bytes = LINESIDE_WIRE_EXECUTE_HEAD_BYTES + count * LINESIDE_WIRE_OPERATION_BYTES;
	uint8_t *body = packet + head_bytes, op = LINESIDE_WIRE_TRANSFER_OP_EXECUTE;

	if (count == 0 || count > most || head_bytes + body_bytes > room)
		return 0;
	lineside_session_put(body + LINESIDE_WIRE_EXECUTE_HEAD_TOKEN, session->token, 8);
	lineside_session_put(body + LINESIDE_WIRE_EXECUTE_HEAD_SEQUENCE, session->next, 8);
	lineside_session_put(body + LINESIDE_WIRE_EXECUTE_HEAD_SLOT, session->slot, 4);
	lineside_session_put(body + LINESIDE_WIRE_EXECUTE_HEAD_COUNT, count, 2);
	lineside_session_put(body + LINESIDE_WIRE_EXECUTE_HEAD_DURABILITY, 0, 2);
	for (i = 0; i < count; i++)
		lineside_session_put_operation(&operations[i], body + LINESIDE_WIRE_EXECUTE_HEAD_BYTES +
								       i * LINESIDE_WIRE_OPERATION_BYTES);
	if (signer != NULL) {
		if (!lineside_session_sign(signer, packet + LINESIDE_WIRE_NATIVE_HEADER_BYTES, body_bytes))
			return 0;
		op = LINESIDE_WIRE_TRANSFER_OP_SIGNED;
	}
	return lineside_session_head(op, request_id, head_bytes + body_bytes, packet);
}

/*
 * Reads the reply to a packet of operations: LINESIDE_SESSION_NOT_OURS, or its status. LINESIDE_WIRE_STATUS_OK:
 * outcomes has the outcome of each operation, and the session has gone on to its next packet.
 * LINESIDE_WIRE_STATUS_BUSY: send the same packet again later. Any other status: nothing was executed, and the number
 * of the packet is free; only if the packet was sent more than once and the status is SEQUENCE, REUSED, NO_SESSION or
 * OUTCOME_UNKNOWN, the first copy may have been executed. *expected is the number that the server expects; 0 if it
 * does not say it.
 */
static inline int lineside_session_executed(struct lineside_session *session, const uint8_t *request,
					    const uint8_t *reply, size_t reply_bytes,
					    struct lineside_outcome *outcomes, uint64_t *expected)
{
	int is_signed = request[LINESIDE_WIRE_NATIVE_HEADER_OP] == LINESIDE_WIRE_TRANSFER_OP_SIGNED;
	const uint8_t *asked = request + LINESIDE_WIRE_NATIVE_HEADER_BYTES +
			       (is_signed ? LINESIDE_WIRE_SIGNED_HEAD_BYTES : 0);
	const uint8_t *body = reply + LINESIDE_WIRE_NATIVE_HEADER_BYTES;
	size_t count = (size_t)lineside_session_get(asked + LINESIDE_WIRE_EXECUTE_HEAD_COUNT, 2), i;
	size_t body_bytes = LINESIDE_WIRE_EXECUTE_HEAD_BYTES + count * LINESIDE_WIRE_OPERATION_BYTES;
	int status = lineside_session_status(request, reply, reply_bytes);

	*expected = 0;
	if (status == LINESIDE_SESSION_NOT_OURS)
		return status;
	if (reply_bytes >= LINESIDE_WIRE_NATIVE_HEADER_BYTES + LINESIDE_WIRE_EXECUTE_HEAD_BYTES)
		*expected = lineside_session_get(body + LINESIDE_WIRE_EXECUTE_HEAD_SEQUENCE, 8);
	if (status != LINESIDE_WIRE_STATUS_OK)
		return status;
	if (reply_bytes != LINESIDE_WIRE_NATIVE_HEADER_BYTES + body_bytes || *expected != session->next)
		return LINESIDE_SESSION_NOT_OURS;
	for (i = 0; i < count; i++) {
		const uint8_t *at = body + LINESIDE_WIRE_EXECUTE_HEAD_BYTES + i * LINESIDE_WIRE_OPERATION_BYTES;

		outcomes[i].code = (uint16_t)lineside_session_get(at + LINESIDE_WIRE_OPERATION_CODE, 2);
		outcomes[i].balance = lineside_session_get(at + LINESIDE_WIRE_OPERATION_AMOUNT, 8);
		outcomes[i].number = lineside_session_get(at + LINESIDE_WIRE_OPERATION_NUMBER, 8);
	}
	session->next++;
	*expected = session->next;
	return status;
}

/* ---- balances ---- */

/*
 * Writes the request for the states of `count` accounts, 16 bytes each, at most LINESIDE_WIRE_TRANSFER_REFER_MAX.
 * Returns its length; 0 if there is no account, or if it does not fit `room` bytes.
 */
static inline size_t lineside_session_refer(uint64_t request_id, const uint8_t *accounts, size_t count, uint8_t *packet,
					    size_t room)
{
	size_t bytes = LINESIDE_WIRE_NATIVE_HEADER_BYTES + LINESIDE_WIRE_REFER_HEAD_BYTES +
		       count * LINESIDE_WIRE_BALANCE_ITEM_BYTES;
	uint8_t *at = packet + LINESIDE_WIRE_NATIVE_HEADER_BYTES;
	size_t i;

	if (count == 0 || count > LINESIDE_WIRE_TRANSFER_REFER_MAX || bytes > room)
		return 0;
	memset(at, 0, bytes - LINESIDE_WIRE_NATIVE_HEADER_BYTES);
	lineside_session_put(at + LINESIDE_WIRE_REFER_HEAD_COUNT, count, 4);
	at += LINESIDE_WIRE_REFER_HEAD_BYTES;
	for (i = 0; i < count; i++, at += LINESIDE_WIRE_BALANCE_ITEM_BYTES)
		memcpy(at + LINESIDE_WIRE_BALANCE_ITEM_ACCOUNT, accounts + 16 * i, 16);
	return lineside_session_head(LINESIDE_WIRE_TRANSFER_OP_REFER, request_id, bytes, packet);
}

/* Reads the reply to lineside_session_refer, whose request had `count` accounts. */
static inline int lineside_session_referred(const uint8_t *request, const uint8_t *reply, size_t reply_bytes,
					    struct lineside_balance *balances, size_t count)
{
	size_t head_bytes = LINESIDE_WIRE_NATIVE_HEADER_BYTES + LINESIDE_WIRE_REFER_HEAD_BYTES, i;
	int status = lineside_session_status(request, reply, reply_bytes);

	if (status != LINESIDE_WIRE_STATUS_OK)
		return status;
	if (reply_bytes != head_bytes + count * LINESIDE_WIRE_BALANCE_ITEM_BYTES)
		return LINESIDE_SESSION_NOT_OURS;
	for (i = 0; i < count; i++) {
		const uint8_t *at = reply + head_bytes + i * LINESIDE_WIRE_BALANCE_ITEM_BYTES;

		if (memcmp(at + LINESIDE_WIRE_BALANCE_ITEM_ACCOUNT,
			   request + head_bytes + i * LINESIDE_WIRE_BALANCE_ITEM_BYTES, 16))
			return LINESIDE_SESSION_NOT_OURS;
		balances[i].code = (uint16_t)lineside_session_get(at + LINESIDE_WIRE_BALANCE_ITEM_CODE, 2);
		balances[i].is_frozen = (uint16_t)lineside_session_get(at + LINESIDE_WIRE_BALANCE_ITEM_FROZEN, 2);
		balances[i].balance = lineside_session_get(at + LINESIDE_WIRE_BALANCE_ITEM_BALANCE, 8);
		balances[i].held = lineside_session_get(at + LINESIDE_WIRE_BALANCE_ITEM_HELD, 8);
		balances[i].version = lineside_session_get(at + LINESIDE_WIRE_BALANCE_ITEM_VERSION, 8);
	}
	return status;
}

#ifdef __cplusplus
}
#endif

#endif
