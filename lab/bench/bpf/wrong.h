/* Map of the first wrong replies, which the report of a benchmark prints. Twin of src/wrong.rs. */
#define WRONG_SHOWN 10
#define WRONG_BYTES 512
#define WRONG_PAYLOAD_AT 42 /* Ethernet, IPv4, UDP */

struct wrong_reply {
	__u64 sent;   /* number of requests that were sent when the reply came */
	__u32 port;   /* UDP port of the client */
	__u32 length; /* of the payload, as far as it is kept */
	__u8 bytes[WRONG_BYTES];
};

struct wrong_list {
	__u64 count;
	struct wrong_reply first[WRONG_SHOWN];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wrong_list);
} wrong_replies SEC(".maps");

/* Keeps the datagram if it is among the first wrong ones. */
static __always_inline void keep_wrong(struct xdp_md *ctx, __u64 sent)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 zero = 0, length;
	struct wrong_reply *reply;
	struct wrong_list *list;
	__u64 at;

	list = bpf_map_lookup_elem(&wrong_replies, &zero);
	if (!list)
		return;
	at = list->count++;
	if (at >= WRONG_SHOWN || data + WRONG_PAYLOAD_AT > end)
		return;
	reply = &list->first[at];
	reply->sent = sent;
	reply->port = bpf_ntohs(*(__be16 *)(data + 36));
	length = (__u32)(end - data) - WRONG_PAYLOAD_AT;
	if (!length)
		return;
	if (length > WRONG_BYTES)
		length = WRONG_BYTES;
	reply->length = length;
	/* The mask shows the verifier that the length is not 0. */
	bpf_xdp_load_bytes(ctx, WRONG_PAYLOAD_AT, reply->bytes, ((length - 1) & (WRONG_BYTES - 1)) + 1);
}
