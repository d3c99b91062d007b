/*
 * Packets of Lineside's service `transfer` in the paper's format, for devices: one header file, which allocates no
 * memory and does no I/O. The caller sends and receives packets of 22 bytes over UDP, port 7702.
 *
 *	struct lineside_transfer request = { LINESIDE_TRANSFER, 17, 1, 2, 500 };
 *	uint8_t bytes[LINESIDE_TRANSFER_BYTES];
 *	lineside_transfer_encode(&request, bytes);       // send; without a reply, send the same bytes again
 *	...
 *	switch (lineside_transfer_answer(&request, reply, reply_bytes, &value)) ...
 *
 * The server executes a request once, however often it is sent, if its transaction id is above the last id of the
 * account `source`. A request with the id 0 has no such protection and must be sent only once.
 */
#ifndef LINESIDE_TRANSFER_H
#define LINESIDE_TRANSFER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Version of this header, which is that of Lineside. Before 1.0, a change after which a program may no longer compile
 * or work raises MINOR. The number is for comparisons: #if LINESIDE_TRANSFER_VERSION >= 1000, for 0.1.0 and later.
 */
#define LINESIDE_TRANSFER_VERSION_MAJOR 0
#define LINESIDE_TRANSFER_VERSION_MINOR 1
#define LINESIDE_TRANSFER_VERSION_PATCH 0
#define LINESIDE_TRANSFER_VERSION                                                                       \
	(LINESIDE_TRANSFER_VERSION_MAJOR * 1000000 + LINESIDE_TRANSFER_VERSION_MINOR * 1000 +         \
	 LINESIDE_TRANSFER_VERSION_PATCH)

/*
 * Length of a packet in bytes: five fields of 4 bytes, and two zeros, which fill an Ethernet frame of 64 bytes. The
 * server accepts 20 to 22 bytes.
 */
#define LINESIDE_TRANSFER_BYTES 22
#define LINESIDE_TRANSFER_BYTES_MIN 20
#define LINESIDE_TRANSFER_PORT 7702

/* Commands. */
#define LINESIDE_CREATE 1   /* creates the account `source` with `amount` as its balance */
#define LINESIDE_ISSUE 2    /* adds `amount` to `source` */
#define LINESIDE_TRANSFER 3 /* moves `amount` from `source` to `destination` */
#define LINESIDE_REFER 4    /* reads the balance of `source` */

/* Results of lineside_transfer_answer other than the server's error codes, which are 1 to 12 (docs/wire-formats.md). */
#define LINESIDE_DONE 0        /* *value is the balance of `source` after the request */
#define LINESIDE_NOT_OURS (-1) /* the packet is not the answer to this request: continue to wait */

struct lineside_transfer {
	uint32_t command;
	uint32_t transaction_id; /* 0: the request must be sent only once */
	uint32_t source;
	uint32_t destination; /* account for LINESIDE_TRANSFER; otherwise 0 */
	uint32_t amount;
};

static inline void lineside_put_be32(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t)(value >> 24);
	at[1] = (uint8_t)(value >> 16);
	at[2] = (uint8_t)(value >> 8);
	at[3] = (uint8_t)value;
}

static inline uint32_t lineside_get_be32(const uint8_t *at)
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Writes the packet of a request. */
static inline void lineside_transfer_encode(const struct lineside_transfer *request,
					    uint8_t packet[LINESIDE_TRANSFER_BYTES])
{
	lineside_put_be32(packet, request->command);
	lineside_put_be32(packet + 4, request->transaction_id);
	lineside_put_be32(packet + 8, request->source);
	lineside_put_be32(packet + 12, request->destination);
	lineside_put_be32(packet + 16, request->amount);
	packet[20] = 0;
	packet[21] = 0;
}

/*
 * Reads a received packet as the server's answer to `request`. Returns LINESIDE_DONE, the server's error code (8 means
 * that the server is busy: send the same packet again), or LINESIDE_NOT_OURS.
 */
static inline int lineside_transfer_answer(const struct lineside_transfer *request, const uint8_t *packet,
					   size_t packet_bytes, uint32_t *value)
{
	uint32_t command, amount;

	if (packet_bytes < LINESIDE_TRANSFER_BYTES_MIN || packet_bytes > LINESIDE_TRANSFER_BYTES)
		return LINESIDE_NOT_OURS;
	command = lineside_get_be32(packet);
	amount = lineside_get_be32(packet + 16);
	if ((command & 0x7fffffff) != request->command ||
	    lineside_get_be32(packet + 4) != request->transaction_id ||
	    lineside_get_be32(packet + 8) != request->source ||
	    lineside_get_be32(packet + 12) != request->destination)
		return LINESIDE_NOT_OURS;
	if (command & 0x80000000)
		return amount >= 1 && amount <= 12 ? (int)amount : LINESIDE_NOT_OURS;
	*value = amount;
	return LINESIDE_DONE;
}

#ifdef __cplusplus
}
#endif

#endif
