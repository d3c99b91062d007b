/* Owns the interface: parses once, finds the service, refuses sources, and tail-calls. Twin of near's Line. */
#pragma once
#include "maps.h"

/* The slot that serves `port`, or 0. */
static __always_inline __u32 ls_slot_of(const struct ls_endpoint *own, __be16 port)
{
	if (port == own->port[LS_SPV_SLOT])
		return LS_SPV_SLOT;
	return 0;
}

static __always_inline int ls_owns_v4(const struct ls_endpoint *own, __be32 address)
{
	for (int i = 0; i < LS_ADDRESSES_MAX; i++)
		if (i < own->v4_count && own->v4[i] == address)
			return 1;
	return 0;
}

static __always_inline int ls_owns_v6(const struct ls_endpoint *own, const __u64 address[2])
{
	for (int i = 0; i < LS_ADDRESSES_MAX; i++)
		if (i < own->v6_count && !((own->v6[i][0] ^ address[0]) | (own->v6[i][1] ^ address[1])))
			return 1;
	return 0;
}

/* Not to be answered: unspecified, multicast, broadcast; off lo also loopback and our own. */
static __always_inline int ls_refuses_v4(const struct ls_endpoint *own, __be32 address)
{
	__u32 first = bpf_ntohl(address) >> 24;

	if (!address || first >> 4 == 0xe || address == 0xffffffff)
		return 1;
	return !own->loopback && (first == 127 || ls_owns_v4(own, address));
}

static __always_inline int ls_refuses_v6(const struct ls_endpoint *own, const __u64 address[2])
{
	if (!(address[0] | address[1]) || (address[0] & 0xff) == 0xff) /* little-endian: first byte */
		return 1;
	if (own->loopback)
		return 0;
	return (!address[0] && address[1] == bpf_cpu_to_be64(1)) || ls_owns_v6(own, address);
}

static __always_inline int ls_refuses_port(__be16 port)
{
	__u16 number = bpf_ntohs(port);

	return !number || (number >= LS_FIRST_PORT && number <= LS_LAST_PORT);
}

/* The slot to tail-call (> 0) with *found filled, or -XDP_PASS / -XDP_DROP. */
static __always_inline int ls_route(void *data, void *end, const struct ls_endpoint *own, struct ls_datagram *found)
{
	struct ls_eth *eth = data;
	struct udphdr *udp;
	__u32 slot;
	int refused;

	if (ls_parse(data, end, found))
		return -XDP_PASS;
	udp = data + found->udp;
	if ((void *)(udp + 1) > end)
		return -XDP_PASS;
	slot = ls_slot_of(own, udp->dest);
	if (!slot)
		return -XDP_PASS;
	for (int i = 0; i < 6; i++)
		if (eth->destination[i] != own->mac[i])
			return -XDP_PASS;
	if (found->is_v6) {
		struct ipv6hdr *v6 = data + found->ip;
		__u64 source[2], destination[2];

		if ((void *)(v6 + 1) > end)
			return -XDP_PASS;
		__builtin_memcpy(source, &v6->saddr, 16);
		__builtin_memcpy(destination, &v6->daddr, 16);
		if (!ls_owns_v6(own, destination))
			return -XDP_PASS;
		refused = ls_refuses_v6(own, source);
	} else {
		struct iphdr *v4 = data + found->ip;

		if ((void *)(v4 + 1) > end || !ls_owns_v4(own, v4->daddr))
			return -XDP_PASS;
		refused = ls_refuses_v4(own, v4->saddr);
	}
	if (ls_refuses_port(udp->source))
		return -ls_drop(LS_DROP_SOURCE_PORT);
	if (refused || (eth->source[0] & 1))
		return -ls_drop(LS_DROP_SOURCE_ADDRESS);
	return slot;
}
