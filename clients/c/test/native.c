/*
 * Makes the requests of test vectors again with lineside_session.h and reads their replies. Each input line has a
 * request and its reply in hexadecimal digits. Prints for each line `skip` if the header cannot make such a request,
 * `ok STATUS` if request and reply are those of the vector, and `other`, what differs and its bytes otherwise.
 */
#include "../lineside_session.h"
#include <stdio.h>
#include <stdlib.h>

#define LINE_BYTES (1 << 20)

/* Key and signature of a vector, in place of a device that signs. */
struct recorded {
	const uint8_t *head;
};

static int recorded_sign(void *context, const uint8_t digest[32], uint8_t signature[64])
{
	const struct recorded *recorded = context;

	(void)digest;
	memcpy(signature, recorded->head + LINESIDE_WIRE_SIGNED_HEAD_R, 32);
	memcpy(signature + 32, recorded->head + LINESIDE_WIRE_SIGNED_HEAD_S, 32);
	return 1;
}

static size_t bytes_of(char *word, uint8_t *bytes)
{
	size_t count = 0;

	for (; word[0] != 0 && word[1] != 0; word += 2) {
		char pair[3] = { word[0], word[1], 0 };

		bytes[count++] = (uint8_t)strtoul(pair, NULL, 16);
	}
	return count;
}

static int differs(const char *what, const uint8_t *got, size_t got_bytes, const uint8_t *want, size_t want_bytes)
{
	if (got_bytes == want_bytes && memcmp(got, want, got_bytes) == 0)
		return 0;
	printf("other %s ", what);
	for (size_t i = 0; i < got_bytes; i++)
		printf("%02x", got[i]);
	printf("\n");
	return 1;
}

/* Returns the number of false replies that the header accepts. Each differs from the right reply in one thing. */
static int takes_a_lie(const uint8_t *request, const uint8_t *reply, size_t bytes)
{
	static const size_t changed[] = { 0, 2, 3, 7, 8, 15 };
	uint8_t *lie = malloc(bytes + 1);
	int taken = 0;

	memcpy(lie, reply, bytes);
	lie[bytes] = 0;
	taken += lineside_session_status(request, lie, bytes + 1) != LINESIDE_SESSION_NOT_OURS;
	taken += lineside_session_status(request, lie, LINESIDE_WIRE_NATIVE_HEADER_BYTES - 1) != LINESIDE_SESSION_NOT_OURS;
	for (size_t i = 0; i < sizeof(changed) / sizeof(changed[0]); i++) {
		lie[changed[i]] ^= 0x80;
		taken += lineside_session_status(request, lie, bytes) != LINESIDE_SESSION_NOT_OURS;
		lie[changed[i]] ^= 0x80;
	}
	free(lie);
	return taken;
}

static void read_operation(const uint8_t *at, struct lineside_operation *operation)
{
	memset(operation, 0, sizeof(*operation));
	operation->command = at[LINESIDE_WIRE_OPERATION_COMMAND];
	operation->is_linked = at[LINESIDE_WIRE_OPERATION_FLAGS] & LINESIDE_WIRE_TRANSFER_FLAG_LINKED;
	operation->is_keyed = at[LINESIDE_WIRE_OPERATION_FLAGS] & LINESIDE_WIRE_TRANSFER_FLAG_KEYED;
	operation->contract = (uint32_t)lineside_session_get(at + LINESIDE_WIRE_OPERATION_CONTRACT, 4);
	memcpy(operation->source, at + LINESIDE_WIRE_OPERATION_SOURCE, 16);
	memcpy(operation->destination, at + LINESIDE_WIRE_OPERATION_DESTINATION, 16);
	operation->amount = lineside_session_get(at + LINESIDE_WIRE_OPERATION_AMOUNT, 8);
	operation->timestamp = lineside_session_get(at + LINESIDE_WIRE_OPERATION_TIMESTAMP, 8);
	memcpy(operation->uuid, at + LINESIDE_WIRE_OPERATION_UUID, 16);
	operation->nonce = (uint32_t)lineside_session_get(at + LINESIDE_WIRE_OPERATION_NONCE, 4);
	operation->timeout_s = (uint32_t)lineside_session_get(at + LINESIDE_WIRE_OPERATION_TIMEOUT_S, 4);
}

/* Makes an execute or signed request again. */
static void execute(const uint8_t *request, size_t request_bytes, const uint8_t *reply, size_t reply_bytes)
{
	struct lineside_operation operations[LINESIDE_SESSION_OPERATIONS_MAX];
	struct lineside_outcome outcomes[LINESIDE_SESSION_OPERATIONS_MAX];
	struct recorded recorded = { request + LINESIDE_WIRE_NATIVE_HEADER_BYTES };
	struct lineside_signer signer = { 0, { 0 }, recorded_sign, &recorded };
	struct lineside_session session;
	uint8_t packet[LINESIDE_SESSION_PACKET_BYTES_MAX], read[LINESIDE_SESSION_PACKET_BYTES_MAX];
	int is_signed = request[3] == LINESIDE_WIRE_TRANSFER_OP_SIGNED, status;
	size_t head = LINESIDE_WIRE_NATIVE_HEADER_BYTES + (is_signed ? LINESIDE_WIRE_SIGNED_HEAD_BYTES : 0);
	size_t count, bytes, first = head + LINESIDE_WIRE_EXECUTE_HEAD_BYTES;
	uint64_t id = lineside_session_get(request + 8, 8), expected;

	if (request_bytes < first || request_bytes > sizeof(packet) ||
	    (request_bytes - first) % LINESIDE_WIRE_OPERATION_BYTES != 0) {
		printf("skip\n");
		return;
	}
	count = (request_bytes - first) / LINESIDE_WIRE_OPERATION_BYTES;
	for (size_t i = 0; i < count; i++) {
		const uint8_t *at = request + first + i * LINESIDE_WIRE_OPERATION_BYTES;

		if (at[LINESIDE_WIRE_OPERATION_FLAGS] > 3 || at[LINESIDE_WIRE_OPERATION_CODE + 1] != 0 ||
		    lineside_session_get(at + LINESIDE_WIRE_OPERATION_NUMBER, 8) != 0 ||
		    count > LINESIDE_SESSION_OPERATIONS_MAX) {
			printf("skip\n");
			return;
		}
		read_operation(at, &operations[i]);
	}
	session.token = lineside_session_get(request + head + LINESIDE_WIRE_EXECUTE_HEAD_TOKEN, 8);
	session.next = lineside_session_get(request + head + LINESIDE_WIRE_EXECUTE_HEAD_SEQUENCE, 8);
	session.slot = (uint32_t)lineside_session_get(request + head + LINESIDE_WIRE_EXECUTE_HEAD_SLOT, 4);
	signer.curve = recorded.head[LINESIDE_WIRE_SIGNED_HEAD_CURVE];
	signer.public_key[0] = recorded.head[LINESIDE_WIRE_SIGNED_HEAD_KEY_PREFIX];
	memcpy(signer.public_key + 1, recorded.head + LINESIDE_WIRE_SIGNED_HEAD_KEY_X, 32);
	bytes = lineside_session_execute(&session, id, operations, count, is_signed ? &signer : NULL, packet, sizeof(packet));
	if (bytes == 0) {
		printf("skip\n");
		return;
	}
	if (differs("request", packet, bytes, request, request_bytes))
		return;
	if (takes_a_lie(packet, reply, reply_bytes)) {
		printf("other lie\n");
		return;
	}
	status = lineside_session_executed(&session, packet, reply, reply_bytes, outcomes, &expected);
	if (status == LINESIDE_WIRE_STATUS_OK) {
		memcpy(read, reply, reply_bytes);
		for (size_t i = 0; i < count; i++) {
			uint8_t *at = read + LINESIDE_WIRE_NATIVE_HEADER_BYTES + LINESIDE_WIRE_EXECUTE_HEAD_BYTES +
				      i * LINESIDE_WIRE_OPERATION_BYTES;

			lineside_session_put_operation(&operations[i], at);
			lineside_session_put(at + LINESIDE_WIRE_OPERATION_CODE, outcomes[i].code, 2);
			lineside_session_put(at + LINESIDE_WIRE_OPERATION_AMOUNT, outcomes[i].balance, 8);
			lineside_session_put(at + LINESIDE_WIRE_OPERATION_NUMBER, outcomes[i].number, 8);
		}
		if (differs("reply", read, reply_bytes, reply, reply_bytes))
			return;
	}
	printf("ok %d\n", status);
}

/* Makes a request about a session again. */
static void about_session(const uint8_t *request, size_t request_bytes, const uint8_t *reply, size_t reply_bytes)
{
	const uint8_t *body = request + LINESIDE_WIRE_NATIVE_HEADER_BYTES;
	struct lineside_session session = { 0 };
	uint8_t packet[LINESIDE_SESSION_REQUEST_BYTES], challenge[16];
	size_t bytes;

	if (request_bytes != sizeof(packet)) {
		printf("skip\n");
		return;
	}
	session.token = lineside_session_get(body + LINESIDE_WIRE_SESSION_BODY_TOKEN, 8);
	session.slot = (uint32_t)lineside_session_get(body + LINESIDE_WIRE_SESSION_BODY_SLOT, 4);
	bytes = lineside_session_request(request[3], lineside_session_get(request + 8, 8),
					 body + LINESIDE_WIRE_SESSION_BODY_CHALLENGE, &session, packet);
	if (differs("request", packet, bytes, request, request_bytes))
		return;
	printf("ok %d\n", lineside_session_opened(packet, reply, reply_bytes, challenge, &session));
}

/* Makes a request for balances again. */
static void refer(const uint8_t *request, size_t request_bytes, const uint8_t *reply, size_t reply_bytes)
{
	struct lineside_balance balances[LINESIDE_WIRE_TRANSFER_REFER_MAX];
	uint8_t packet[LINESIDE_SESSION_PACKET_BYTES_MAX], accounts[16 * LINESIDE_WIRE_TRANSFER_REFER_MAX];
	uint8_t read[LINESIDE_SESSION_PACKET_BYTES_MAX];
	size_t head = LINESIDE_WIRE_NATIVE_HEADER_BYTES + LINESIDE_WIRE_REFER_HEAD_BYTES, count, bytes;
	int status;

	count = request_bytes < head ? 0 : (request_bytes - head) / LINESIDE_WIRE_BALANCE_ITEM_BYTES;
	if (count == 0 || count > LINESIDE_WIRE_TRANSFER_REFER_MAX ||
	    request_bytes != head + count * LINESIDE_WIRE_BALANCE_ITEM_BYTES) {
		printf("skip\n");
		return;
	}
	for (size_t i = 0; i < count; i++)
		memcpy(accounts + 16 * i, request + head + i * LINESIDE_WIRE_BALANCE_ITEM_BYTES, 16);
	bytes = lineside_session_refer(lineside_session_get(request + 8, 8), accounts, count, packet, sizeof(packet));
	if (differs("request", packet, bytes, request, request_bytes))
		return;
	status = lineside_session_referred(packet, reply, reply_bytes, balances, count);
	if (status == LINESIDE_WIRE_STATUS_OK) {
		memcpy(read, reply, reply_bytes);
		for (size_t i = 0; i < count; i++) {
			uint8_t *at = read + head + i * LINESIDE_WIRE_BALANCE_ITEM_BYTES;

			lineside_session_put(at + LINESIDE_WIRE_BALANCE_ITEM_BALANCE, balances[i].balance, 8);
			lineside_session_put(at + LINESIDE_WIRE_BALANCE_ITEM_HELD, balances[i].held, 8);
			lineside_session_put(at + LINESIDE_WIRE_BALANCE_ITEM_VERSION, balances[i].version, 8);
			lineside_session_put(at + LINESIDE_WIRE_BALANCE_ITEM_CODE, balances[i].code, 2);
			lineside_session_put(at + LINESIDE_WIRE_BALANCE_ITEM_FROZEN, balances[i].is_frozen, 2);
		}
		if (differs("reply", read, reply_bytes, reply, reply_bytes))
			return;
	}
	printf("ok %d\n", status);
}

int main(void)
{
	char *line = malloc(LINE_BYTES);
	uint8_t *request = malloc(LINE_BYTES), *reply = malloc(LINE_BYTES);

	while (line != NULL && request != NULL && reply != NULL && fgets(line, LINE_BYTES, stdin) != NULL) {
		char *first = strtok(line, " \n"), *second = strtok(NULL, " \n");
		size_t request_bytes, reply_bytes;

		if (first == NULL || second == NULL)
			return 2;
		request_bytes = bytes_of(first, request);
		reply_bytes = bytes_of(second, reply);
		if (request_bytes < LINESIDE_WIRE_NATIVE_HEADER_BYTES || reply_bytes < LINESIDE_WIRE_NATIVE_HEADER_BYTES)
			return 2;
		switch (request[LINESIDE_WIRE_NATIVE_HEADER_OP]) {
		case LINESIDE_WIRE_TRANSFER_OP_EXECUTE:
		case LINESIDE_WIRE_TRANSFER_OP_SIGNED:
			execute(request, request_bytes, reply, reply_bytes);
			break;
		case LINESIDE_WIRE_TRANSFER_OP_OPEN:
		case LINESIDE_WIRE_TRANSFER_OP_CLOSE:
		case LINESIDE_WIRE_TRANSFER_OP_SESSION:
			about_session(request, request_bytes, reply, reply_bytes);
			break;
		case LINESIDE_WIRE_TRANSFER_OP_REFER:
			refer(request, request_bytes, reply, reply_bytes);
			break;
		default:
			printf("skip\n");
		}
	}
	free(line);
	free(request);
	free(reply);
	return 0;
}
