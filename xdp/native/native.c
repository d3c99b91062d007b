// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * The XDP programs as a library: root and the services in one translation unit, their maps found by name. See
 * bpf/bpf_helpers.h. lab/conformance/build.rs writes services.h, which includes every xdp/<service>.bpf.c and defines
 * LS_NATIVE_SERVICES(X) as one X(name, NAME) for each service.
 */
#define LS_NATIVE
#define _license ls_license_root
#include "../root.bpf.c"
#undef _license
#include "services.h"
#include <string.h>
#include <time.h>

struct ls_native_map {
	const char *name;
	const void *map;
	__u32 value_bytes;
	__u8 *values;
	__u64 entries;
};

#define LS_MAP(NAME) { .name = #NAME, .map = &NAME, .value_bytes = sizeof(*NAME.value) }
#define LS_LISTED_MAP(NAME) LS_MAP(NAME),
#define LS_MAPS_OF(NAME, UPPER) LS_##UPPER##_MAPS(LS_LISTED_MAP)
static struct ls_native_map ls_native_maps[] = {
	LS_MAP(ls_endpoints),
	LS_MAP(ls_scratches),
	LS_MAP(ls_drop_counts),
	LS_NATIVE_SERVICES(LS_MAPS_OF)
	/* column_data is listed here because the size of its values is set at run time, together with the constants. */
	{ .name = "column_data", .map = &column_data, .value_bytes = 64 },
};
#define LS_MAPS (sizeof(ls_native_maps) / sizeof(*ls_native_maps))

static struct ls_native_map *ls_native_find(const char *name)
{
	for (size_t i = 0; i < LS_MAPS; i++)
		if (!strcmp(ls_native_maps[i].name, name))
			return &ls_native_maps[i];
	return NULL;
}

/* Returns the size of a value of the map `name` in bytes, or 0 if there is no such map. */
__u32 ls_native_value_bytes(const char *name)
{
	struct ls_native_map *map = ls_native_find(name);

	return map ? map->value_bytes : 0;
}

/*
 * Binds the map `name` to memory, which must outlive the binding. Returns 0, or -1 if there is no such map or `bytes`
 * is not a multiple of the size of its values.
 */
int ls_native_bind(const char *name, void *values, __u64 bytes)
{
	struct ls_native_map *map = ls_native_find(name);

	if (!map || bytes % map->value_bytes)
		return -1;
	map->values = values;
	map->entries = bytes / map->value_bytes;
	return 0;
}

void ls_native_unbind(void)
{
	for (size_t i = 0; i < LS_MAPS; i++)
		ls_native_maps[i].entries = 0;
}

/* Sets the constants of a program in `section`. Returns 0, or -1 if no section has this name and size. */
int ls_native_set(const char *section, const void *bytes, __u32 count)
{
	int result = -1;

#define LS_SET(SECTION, CONSTANT) \
	if (!strcmp(section, SECTION) && count == sizeof(CONSTANT)) { \
		memcpy((void *)&CONSTANT, bytes, count); \
		result = 0; \
	}
#define LS_CONSTANTS_OF(NAME, UPPER) LS_##UPPER##_CONSTANTS(LS_SET)
	LS_NATIVE_SERVICES(LS_CONSTANTS_OF)
	ls_native_find("column_data")->value_bytes = column_geometry.data_bytes;
	return result;
}

void *ls_native_lookup(const void *map, const void *key)
{
	__u32 index = *(const __u32 *)key;

	for (size_t i = 0; i < LS_MAPS; i++)
		if (ls_native_maps[i].map == map)
			return index < ls_native_maps[i].entries ?
				       ls_native_maps[i].values + (__u64)index * ls_native_maps[i].value_bytes :
				       NULL;
	return NULL;
}

int ls_native_call(void *ctx, __u32 slot)
{
	switch (slot) {
#define LS_CASE(NAME, UPPER) \
	case LS_##UPPER##_SLOT: \
		return ls_##NAME(ctx);
		LS_NATIVE_SERVICES(LS_CASE)
	default:
		return -1;
	}
}

__u64 ls_native_now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
	return (__u64)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* Runs root on a frame. The frame must lie below 4 GiB, because the addresses in xdp_md have 32 bits. */
int ls_native_run(__u32 data, __u32 data_end)
{
	struct xdp_md ctx = { .data = data, .data_end = data_end };

	return ls_root(&ctx);
}

/* Runs ls_transfer_claims, which carries out an order of the host in the fast path of `transfer`. */
int ls_native_claims(__u32 data, __u32 data_end)
{
	struct xdp_md ctx = { .data = data, .data_end = data_end };

	return ls_transfer_claims(&ctx);
}
