// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Logic of the root program: it parses a packet once, finds the service, refuses sources that must not be answered,
 * and tail-calls. The C twin of `FrameHandler` in crates/fastpath/src/frame.rs.
 */
#pragma once
#include "maps.h"

#define LS_ADDRESSES_MAX 8

/*
 * The interface that the fast path is attached to. The host writes this struct. Addresses and ports are in network
 * byte order.
 */
struct ls_endpoint {
	__u8 mac[6];
	__u8 loopback; /* 1 on lo: own and loopback sources are allowed */
	__u8 reserved;
	__be16 port[LS_SLOTS]; /* by slot; 0: no service */
	__u32 v4_answered; /* the fast path answers for the first v4_answered of the addresses in v4 */
	__u32 v6_answered; /* likewise in v6 */
	__u32 v4_count;
	__u32 v6_count;
	__be32 v4[LS_ADDRESSES_MAX];
	__be32 v4_broadcast[LS_ADDRESSES_MAX]; /* of v4's subnets; 255.255.255.255 where there is none */
	__u64 v6[LS_ADDRESSES_MAX][2];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ls_endpoint);
} ls_endpoints SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, LS_SLOTS);
	__type(key, __u32);
	__type(value, __u32);
} ls_services SEC(".maps");

/*
 * Returns 1 if a service listens on `port`. Which service it is, is decided only at the end of the root program, so
 * that the verifier walks one path for all services.
 */
static __always_inline int ls_is_served(const struct ls_endpoint *own, __be16 port)
{
	if (!port)
		return 0;
#define LS_MATCH(SLOT) \
	if (port == own->port[SLOT]) \
		return 1;
	LS_FOR_EACH_SLOT(LS_MATCH)
	return 0;
}

/* Drops a packet for `port`, which belongs to a service, and counts the reason. */
static __always_inline int ls_drop_at(const struct ls_endpoint *own, __be16 port, enum ls_drop reason)
{
#define LS_DROP_AT(SLOT) \
	if (port == own->port[SLOT]) \
		return ls_drop(SLOT, reason);
	LS_FOR_EACH_SLOT(LS_DROP_AT)
	return XDP_DROP;
}

static __always_inline int ls_is_own_mac(const struct ls_endpoint *own, const void *eth)
{
	const void *mac = own->mac;

	return !((*(__u32 *)mac ^ *(__u32 *)eth) | (*(__u16 *)(mac + 4) ^ *(__u16 *)(eth + 4)));
}

static __always_inline int ls_has_v4(const struct ls_endpoint *own, __u32 count, __be32 address)
{
	for (__u32 i = 0; i < LS_ADDRESSES_MAX && i < count; i++)
		if (own->v4[i] == address)
			return 1;
	return 0;
}

static __always_inline int ls_has_v6(const struct ls_endpoint *own, __u32 count, const __u64 address[2])
{
	for (__u32 i = 0; i < LS_ADDRESSES_MAX && i < count; i++)
		if (!((own->v6[i][0] ^ address[0]) | (own->v6[i][1] ^ address[1])))
			return 1;
	return 0;
}

/*
 * Returns 1 if this source must not be answered: an unspecified, multicast or broadcast address, and, except on the
 * interface lo, a loopback address or an address of this interface.
 */
static __always_inline int ls_refuses_v4(const struct ls_endpoint *own, __be32 address)
{
	__u32 first = bpf_ntohl(address) >> 24;

	if (!address || first >> 4 == 0xe || address == 0xffffffff)
		return 1;
	for (__u32 i = 0; i < LS_ADDRESSES_MAX && i < own->v4_count; i++)
		if (own->v4_broadcast[i] == address)
			return 1;
	if (own->loopback)
		return 0;
	return first == 127 || ls_has_v4(own, own->v4_count, address);
}

static __always_inline int ls_refuses_v6(const struct ls_endpoint *own, const __u64 address[2])
{
	if (!(address[0] | address[1]) || (address[0] & 0xff) == 0xff) /* little-endian: first byte */
		return 1;
	if (own->loopback)
		return 0;
	return (!address[0] && address[1] == bpf_cpu_to_be64(1)) || ls_has_v6(own, own->v6_count, address);
}

/*
 * Returns 1 if this source port must not be answered. A service at the other end that has this port, or the
 * destination port itself, could answer our reply, and the two servers would answer each other for ever.
 */
static __always_inline int ls_refuses_port(__be16 port, __be16 own)
{
	__u16 number = bpf_ntohs(port);

	return !number || port == own || LS_IS_SERVICE_PORT(number);
}

/* Fills *found and *port and returns 0 if a service must answer the packet. Otherwise returns XDP_PASS or XDP_DROP. */
static __always_inline int ls_route(void *data, void *end, const struct ls_endpoint *own, struct ls_datagram *found,
				    __be16 *port)
{
	struct ls_eth *eth = data;
	struct udphdr *udp;
	int refused;
	__u32 ttl;

	if (ls_parse(data, end, found))
		return XDP_PASS;
	udp = data + found->udp;
	if ((void *)(udp + 1) > end)
		return XDP_PASS;
	*port = udp->dest;
	if (!ls_is_served(own, *port))
		return XDP_PASS;
	if (!ls_is_own_mac(own, eth))
		return XDP_PASS;
	if (found->is_v6) {
		struct ipv6hdr *v6 = data + found->ip;
		__u64 source[2], destination[2];

		if ((void *)(v6 + 1) > end)
			return XDP_PASS;
		__builtin_memcpy(source, &v6->saddr, 16);
		__builtin_memcpy(destination, &v6->daddr, 16);
		if (!ls_has_v6(own, own->v6_answered, destination))
			return XDP_PASS;
		refused = ls_refuses_v6(own, source);
		ttl = v6->hop_limit;
	} else {
		struct iphdr *v4 = data + found->ip;

		if ((void *)(v4 + 1) > end || !ls_has_v4(own, own->v4_answered, v4->daddr))
			return XDP_PASS;
		refused = ls_refuses_v4(own, v4->saddr);
		ttl = v4->ttl;
	}
	if (ls_refuses_port(udp->source, *port))
		return ls_drop_at(own, *port, LS_DROP_SOURCE_PORT);
	if (refused || (eth->source[0] & 1))
		return ls_drop_at(own, *port, LS_DROP_SOURCE_ADDRESS);
	/* The packet is passed to the host, which drops it and counts the drop. */
	if (!ls_reply_ttl(udp + 1, end, found->payload_bytes, ttl))
		return XDP_PASS;
	return 0;
}
