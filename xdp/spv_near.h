/* The near of `spv`: the C twin of crates/spv/src/near.rs. Layouts in spec/spv.toml. */
#pragma once
#include "maps.h"
#include "reply.h"

/* Sizes are set before loading; as they stand here they are the paper's geometry. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << 22);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct ls_spv_line);
} spv_lines SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << 18);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct ls_spv_block);
} spv_blocks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct ls_spv_control);
} spv_control SEC(".maps");

struct ls_spv_counts {
	__u64 count[LS_SPV_COUNTERS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ls_spv_counts);
} spv_counts SEC(".maps");

/* x86 keeps loads in order, so only the compiler must be held; elsewhere this program is not built. */
#if !defined(__TARGET_ARCH_x86)
#error "the sequence protocol of spv_near.h needs a load barrier on this architecture"
#endif
#define ls_read_barrier() asm volatile("" ::: "memory")
#define LS_READ_ONCE(x) (*(volatile typeof(x) *)&(x))

static __always_inline int spv_count(enum ls_spv_counter counter, int verdict)
{
	__u32 zero = 0;
	struct ls_spv_counts *counts = bpf_map_lookup_elem(&spv_counts, &zero);

	if (counts)
		counts->count[counter]++;
	return verdict;
}

/* Keyed hash: NH over eight 32-bit words, then one odd multiplication (store.rs, index_hash). */
static __always_inline __u64 spv_hash(const __u64 txid[4], const __u64 key[5])
{
	__u64 sum = 0;

	for (int i = 0; i < 4; i++) {
		__u32 low = (__u32)txid[i] + (__u32)key[i];
		__u32 high = (__u32)(txid[i] >> 32) + (__u32)(key[i] >> 32);

		sum += (__u64)low * high;
	}
	return sum * key[4];
}

static __always_inline __u32 spv_first_line(const struct ls_spv_control *control, const __u64 txid[4])
{
	__u32 set_bits = control->set_bits & 31;
	__u32 set;

	if (control->paper_index)
		set = (__u32)txid[0] & ((1u << set_bits) - 1);
	else
		set = spv_hash(txid, control->key) >> ((64 - set_bits) & 63);
	return set * control->ways;
}

/* 1 and the root, when a whole and valid line has `txid`. */
static __always_inline int spv_root(const struct ls_spv_control *control, const __u64 txid[4], __u64 root[4])
{
	__u32 first = spv_first_line(control, txid);

	for (__u32 way = 0; way < 4; way++) {
		__u32 at = first + way, slot, generation;
		struct ls_spv_line *line;
		struct ls_spv_block *block;
		__u64 seq;

		if (way >= control->ways)
			break;
		line = bpf_map_lookup_elem(&spv_lines, &at);
		if (!line)
			break;
		seq = LS_READ_ONCE(line->seq);
		ls_read_barrier();
		if ((line->txid[0] ^ txid[0]) | (line->txid[1] ^ txid[1]) | (line->txid[2] ^ txid[2]) |
		    (line->txid[3] ^ txid[3]))
			continue;
		slot = LS_READ_ONCE(line->block) & control->block_mask;
		generation = LS_READ_ONCE(line->generation);
		ls_read_barrier();
		if ((seq & 1) || LS_READ_ONCE(line->seq) != seq || !generation)
			continue;
		block = bpf_map_lookup_elem(&spv_blocks, &slot);
		if (!block || LS_READ_ONCE(block->generation) != generation)
			return 0;
		ls_read_barrier();
		for (int i = 0; i < 4; i++)
			root[i] = LS_READ_ONCE(block->root[i]);
		ls_read_barrier();
		return LS_READ_ONCE(block->generation) == generation;
	}
	return 0;
}

static __always_inline int spv_answer(void *data, void *end, const struct ls_datagram *found, __u64 now_ns)
{
	__u32 zero = 0;
	struct ls_spv_control *control = bpf_map_lookup_elem(&spv_control, &zero);
	__u8 *payload = data + (found->udp & 63) + sizeof(struct udphdr);
	__u64 txid[4], root[4], epoch, sum = 0;

	if (!control)
		return XDP_PASS;
	if (found->payload_bytes != LS_SPV_PAPER_REQUEST_BYTES) {
		struct ls_native_header *header = (void *)payload;

		if (found->payload_bytes < sizeof(*header) || (void *)(header + 1) > end ||
		    header->magic != bpf_htons(LS_NATIVE_MAGIC))
			return ls_drop(LS_DROP_NOT_A_REQUEST);
		if (header->op & LS_NATIVE_REPLY_BIT)
			return ls_drop(LS_DROP_REPLY_BIT);
		return spv_count(LS_SPV_COUNTER_FORWARDED_NATIVE, XDP_PASS);
	}
	if ((void *)(payload + LS_SPV_PAPER_REQUEST_BYTES) > end)
		return XDP_PASS;
	if (!control->paper_format)
		return ls_drop(LS_DROP_PAPER_REFUSED);
	epoch = LS_READ_ONCE(control->epoch);
	if ((epoch & 1) || now_ns >= LS_READ_ONCE(control->lease_until_ns))
		return spv_count(LS_SPV_COUNTER_NOT_LEASED, XDP_PASS);
	ls_read_barrier();
	__builtin_memcpy(txid, payload, sizeof(txid));
	if (!spv_root(control, txid, root))
		return spv_count(LS_SPV_COUNTER_MISSES, XDP_PASS);
	ls_read_barrier();
	if (LS_READ_ONCE(control->epoch) != epoch)
		return spv_count(LS_SPV_COUNTER_NOT_LEASED, XDP_PASS);
	__builtin_memcpy(payload, root, sizeof(root));
	for (int i = 0; i < 4; i++)
		sum += (root[i] & 0xffffffff) + (root[i] >> 32);
	if (ls_reply(data, end, found, sum))
		return XDP_PASS;
	return spv_count(LS_SPV_COUNTER_HITS, XDP_TX);
}
