/*
 * Opens a session of a server over UDP with lineside_session.h alone, creates two accounts, moves an amount between
 * them a number of times, prints both balances, and closes the session. Requests without a reply are sent again.
 * Arguments: ADDRESS PORT ACCOUNT TRANSFERS; the accounts are ACCOUNT and ACCOUNT + 1.
 */
#include "../lineside_session.h"
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define TRIES 1000

static int out;
static uint64_t next_id;

/* Sends a packet until a reply has its id, and returns the bytes of the reply. */
static size_t exchange(const uint8_t *packet, size_t bytes, uint8_t *reply, size_t room)
{
	for (int i = 0; i < TRIES; i++) {
		if (send(out, packet, bytes, 0) < 0)
			usleep(10000); /* no server listens on the port */
		for (;;) {
			ssize_t got = recv(out, reply, room, 0);

			if (got < 0 && errno == ECONNREFUSED)
				usleep(10000);
			if (got < 0)
				break;
			if (lineside_session_status(packet, reply, (size_t)got) >= 0)
				return (size_t)got;
		}
	}
	fprintf(stderr, "no reply\n");
	exit(1);
}

static void open_session(struct lineside_session *session)
{
	uint8_t packet[LINESIDE_SESSION_REQUEST_BYTES], reply[LINESIDE_SESSION_PACKET_BYTES_MAX], challenge[16] = { 0 };

	for (int i = 0; i < 2; i++) {
		size_t bytes = lineside_session_open(next_id++, challenge, packet);
		size_t got = exchange(packet, bytes, reply, sizeof(reply));

		if (lineside_session_opened(packet, reply, got, challenge, session) != LINESIDE_WIRE_STATUS_OK)
			exit(1);
	}
}

static void execute(struct lineside_session *session, const struct lineside_operation *operations, size_t count)
{
	struct lineside_outcome outcomes[LINESIDE_SESSION_OPERATIONS_MAX];
	uint8_t packet[LINESIDE_SESSION_PACKET_BYTES_MAX], reply[LINESIDE_SESSION_PACKET_BYTES_MAX];
	size_t bytes = lineside_session_execute(session, next_id++, operations, count, NULL, packet, sizeof(packet));
	uint64_t expected;
	size_t got = exchange(packet, bytes, reply, sizeof(reply));
	int status = lineside_session_executed(session, packet, reply, got, outcomes, &expected);

	for (size_t i = 0; i < count; i++) {
		if (status != LINESIDE_WIRE_STATUS_OK || outcomes[i].code != LINESIDE_WIRE_TRANSFER_CODE_DONE) {
			fprintf(stderr, "status %d, code %d\n", status, outcomes[i].code);
			exit(1);
		}
	}
}

int main(int count, char **words)
{
	struct sockaddr_in server = { .sin_family = AF_INET };
	struct timeval patience = { .tv_usec = 50000 };
	struct lineside_session session;
	struct lineside_operation operations[2];
	struct lineside_balance balances[2];
	uint8_t packet[LINESIDE_SESSION_PACKET_BYTES_MAX], reply[LINESIDE_SESSION_PACKET_BYTES_MAX], accounts[32] = { 0 };
	size_t bytes;
	long transfers;

	if (count != 5 || inet_pton(AF_INET, words[1], &server.sin_addr) != 1)
		return 2;
	server.sin_port = htons((uint16_t)atoi(words[2]));
	out = socket(AF_INET, SOCK_DGRAM, 0);
	if (out < 0 || setsockopt(out, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) ||
	    connect(out, (struct sockaddr *)&server, sizeof(server)))
		return 2;
	next_id = (uint64_t)getpid() << 32;
	open_session(&session);
	memset(operations, 0, sizeof(operations));
	for (int i = 0; i < 2; i++) {
		lineside_session_put(accounts + 16 * i + 8, strtoul(words[3], NULL, 10) + (unsigned long)i, 8);
		operations[i].command = LINESIDE_WIRE_TRANSFER_COMMAND_CREATE;
		memcpy(operations[i].source, accounts + 16 * i, 16);
		operations[i].amount = i == 0 ? 1000000 : 0;
	}
	execute(&session, operations, 2);
	for (transfers = strtol(words[4], NULL, 10); transfers > 0; transfers--) {
		/* 3 there and 1 back, in one packet. */
		for (int i = 0; i < 2; i++) {
			operations[i].command = LINESIDE_WIRE_TRANSFER_COMMAND_TRANSFER;
			memcpy(operations[i].source, accounts + 16 * i, 16);
			memcpy(operations[i].destination, accounts + 16 * (1 - i), 16);
			operations[i].amount = i == 0 ? 3 : 1;
		}
		operations[0].is_linked = 1;
		execute(&session, operations, 2);
	}
	bytes = lineside_session_refer(next_id++, accounts, 2, packet, sizeof(packet));
	bytes = exchange(packet, bytes, reply, sizeof(reply));
	if (lineside_session_referred(packet, reply, bytes, balances, 2) != LINESIDE_WIRE_STATUS_OK)
		return 1;
	printf("%llu %llu\n", (unsigned long long)balances[0].balance, (unsigned long long)balances[1].balance);
	bytes = lineside_session_close(next_id++, &session, packet);
	exchange(packet, bytes, reply, sizeof(reply));
	close(out);
	return 0;
}
