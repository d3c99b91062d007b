/*
 * Test program that sends a request to a server over UDP, using only lineside_transfer.h, and prints the answer.
 * Arguments: ADDRESS PORT COMMAND ID SOURCE DESTINATION AMOUNT.
 */
#include "../lineside_transfer.h"
#if LINESIDE_TRANSFER_VERSION < 1000
#error "LINESIDE_TRANSFER_VERSION is below 0.1.0, or not a number for the preprocessor"
#endif
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define TRIES 50

int main(int count, char **words)
{
	struct sockaddr_in server = { .sin_family = AF_INET };
	struct timeval patience = { .tv_usec = 200000 };
	struct lineside_transfer request;
	uint8_t packet[LINESIDE_TRANSFER_BYTES], reply[64];
	uint32_t value = 0;
	int out, answer = LINESIDE_NOT_OURS;

	if (count != 8 || inet_pton(AF_INET, words[1], &server.sin_addr) != 1)
		return 2;
	server.sin_port = htons((uint16_t)atoi(words[2]));
	request.command = (uint32_t)strtoul(words[3], NULL, 10);
	request.transaction_id = (uint32_t)strtoul(words[4], NULL, 10);
	request.source = (uint32_t)strtoul(words[5], NULL, 10);
	request.destination = (uint32_t)strtoul(words[6], NULL, 10);
	request.amount = (uint32_t)strtoul(words[7], NULL, 10);
	lineside_transfer_encode(&request, packet);
	out = socket(AF_INET, SOCK_DGRAM, 0);
	if (out < 0 || setsockopt(out, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) ||
	    connect(out, (struct sockaddr *)&server, sizeof(server)))
		return 2;
	for (int i = 0; i < TRIES && answer == LINESIDE_NOT_OURS; i++) {
		ssize_t bytes;

		if (send(out, packet, sizeof(packet), 0) < 0)
			usleep(10000); /* no server listens on the port yet */
		bytes = recv(out, reply, sizeof(reply), 0);
		if (bytes > 0)
			answer = lineside_transfer_answer(&request, reply, (size_t)bytes, &value);
	}
	close(out);
	printf("%d %u\n", answer, value);
	return answer == LINESIDE_DONE ? 0 : 1;
}
