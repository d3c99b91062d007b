/* The XDP programs as a library: root and services in one unit, their maps found by name. See bpf/bpf_helpers.h. */
#define LS_NATIVE
#define _license ls_license_root
#include "../root.bpf.c"
#undef _license
#define _license ls_license_spv
#include "../spv.bpf.c"
#undef _license
#include <string.h>
#include <time.h>

struct ls_native_map {
	const char *name;
	const void *map;
	__u8 *values;
	__u32 value_bytes, entries;
};

#define LS_MAP(NAME) { .name = #NAME, .map = &NAME }
static struct ls_native_map ls_native_maps[] = {
	LS_MAP(ls_endpoints), LS_MAP(ls_scratches), LS_MAP(ls_drop_counts), LS_MAP(spv_lines),
	LS_MAP(spv_blocks),   LS_MAP(spv_control), LS_MAP(spv_counts),	   LS_MAP(spv_drafts),
};
#define LS_MAPS (sizeof(ls_native_maps) / sizeof(*ls_native_maps))

/* Binds the map `name` to memory that outlives its use; 0, or -1: there is no such map. */
int ls_native_bind(const char *name, void *values, __u32 value_bytes, __u32 entries)
{
	for (size_t i = 0; i < LS_MAPS; i++) {
		struct ls_native_map *map = &ls_native_maps[i];

		if (strcmp(map->name, name))
			continue;
		map->values = values;
		map->value_bytes = value_bytes;
		map->entries = entries;
		return 0;
	}
	return -1;
}

void ls_native_set_geometry(__u32 set_bits, __u32 ways, __u32 paper_index, __u32 block_mask)
{
	spv_geometry.set_bits = set_bits;
	spv_geometry.ways = ways;
	spv_geometry.paper_index = paper_index;
	spv_geometry.block_mask = block_mask;
}

void *ls_native_lookup(const void *map, const void *key)
{
	__u32 index = *(const __u32 *)key;

	for (size_t i = 0; i < LS_MAPS; i++)
		if (ls_native_maps[i].map == map)
			return index < ls_native_maps[i].entries ?
				       ls_native_maps[i].values + (size_t)index * ls_native_maps[i].value_bytes :
				       NULL;
	return NULL;
}

int ls_native_call(void *ctx, __u32 slot)
{
	return slot == LS_SPV_SLOT ? ls_spv(ctx) : -1;
}

__u64 ls_native_now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
	return (__u64)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* Runs root on a frame that lies below 4 GiB, as the addresses in xdp_md ask. */
int ls_native_run(__u32 data, __u32 data_end)
{
	struct xdp_md ctx = { .data = data, .data_end = data_end };

	return ls_root(&ctx);
}
