//go:build ignore

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// sluice_classify decides which packets are ours. Ours go to the AF_XDP socket of the queue on which they came in;
// everything else, malformed packets included, goes on to the kernel stack untouched. The rules are those of xdp.Rules in
// Go, whose Match gives the same verdicts; a test holds the two together.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define MAX_VLANS 2      // tags parsed inline; a packet with more is not ours
#define MAX_EXTENSIONS 8 // IPv6 extension headers followed in one packet; with more the packet has no ports
#define MAX_OFFSET 32767 // of a header in the frame; the verifier wants a bound, and no frame reaches it

#define PROTO_HOPOPTS 0
#define PROTO_ICMP 1
#define PROTO_TCP 6
#define PROTO_UDP 17
#define PROTO_ROUTING 43
#define PROTO_FRAGMENT 44
#define PROTO_ICMPV6 58
#define PROTO_DSTOPTS 60
#define PROTO_SCTP 132

// An address as 16 bytes in network order, IPv4 in IPv4-mapped form (::ffff:a.b.c.d).
struct addr {
	__be32 word[4];
};

// What an address is, or'ed together: the values of map addresses.
enum kind {
	SERVICE = 1,
	NODEPORT = 2,
	SNAT = 4,
};

struct prefix_key {
	__u32 bits;
	struct addr addr;
};

struct backend_key {
	struct addr addr;
	__u16 port;
	__u8 proto;
	__u8 zero;
};

struct nodeport_key {
	__u16 port;
	__u8 proto;
	__u8 zero;
};

// Source ports of full NAT, inclusive. {0, 0}: none. Four bytes, so that an update is seen whole.
struct snat_ports {
	__u16 first;
	__u16 last;
};

// Packets by what became of them.
struct counts {
	__u64 passed;     // not ours: to the kernel
	__u64 redirected; // ours: to a socket
	__u64 no_socket;  // ours, and dropped: no socket on the queue
};

// Address -> kinds of the gateway's addresses. Written by Go, read here. Room for every address that 64 Ki
// services could have; not preallocated, so an empty one costs its buckets only. All rule maps are shared by the
// programs of all interfaces.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 131072);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct addr);
	__type(value, enum kind);
} addresses SEC(".maps");

// Service CIDRs -> 1. Written by Go, read here. A cluster has one or two ranges per family, rarely some more.
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 256);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct prefix_key);
	__type(value, __u8);
} ranges SEC(".maps");

// (protocol, port) of NodePorts -> 1. Written by Go, read here. Large enough for a full NodePort range in TCP, UDP and SCTP.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct nodeport_key);
	__type(value, __u8);
} nodeports SEC(".maps");

// (address, protocol, port) of backends whose replies must be translated -> 1, and (address, 0, 0) for each of their
// addresses. Written by Go, read here. A quarter of a million endpoint ports on half as many addresses is beyond the largest
// cluster that Kubernetes is tested with.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 393216);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct backend_key);
	__type(value, __u8);
} backends SEC(".maps");

// The one entry holds the source ports of full NAT. Written by Go, read here.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct snat_ports);
} snat SEC(".maps");

// Receive queue -> AF_XDP socket. Written by Go before the program is attached, read here. One for each interface; Go sets
// the size to the interface's number of queues.
struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

// The one entry of each CPU counts packets. Written here, read by Go. One for each interface.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counts);
} counters SEC(".maps");

// What the headers of an IP packet, or of one quoted in an ICMP error, say; and how far they have been read.
struct packet {
	struct addr src, dst;
	__u32 pos;          // offset in the frame of the first byte that is not read yet
	__u32 end;          // offset of the end of the IP packet, which Ethernet padding may follow
	__u16 sport, dport; // of TCP, UDP, SCTP; both the identifier for ICMP echo; valid iff ports
	__u8 proto;         // behind the extension headers
	__u8 icmp_type;     // valid iff icmp
	__u8 later;         // a fragment other than the first: no transport header
	__u8 fragment;      // a fragment, whichever
	__u8 ports;
	__u8 icmp; // ICMP over IPv4 or ICMPv6 over IPv6
	__u8 is_ipv6;
	__u8 quoted;
};

struct ipv4 {
	__u8 version_ihl, tos;
	__be16 length, id, fragment;
	__u8 ttl, proto;
	__be16 checksum;
	__be32 src, dst;
};

struct ipv6 {
	__u8 version_class, rest[3];
	__be16 length;
	__u8 next, hops;
	struct addr src, dst;
};

// The first eight bytes of a transport header: what an ICMP error quotes at least (RFC 792).
union transport {
	struct {
		__be16 sport, dport;
		__be32 more;
	};
	struct {
		__u8 type, code;
		__be16 checksum, id, sequence;
	} icmp;
};

// take returns the next n bytes of p and moves on behind them; NULL when the packet has not so many.
static __always_inline void *take(struct xdp_md *ctx, struct packet *p, __u32 n)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end, *at;
	__u32 pos = p->pos;

	if (pos > MAX_OFFSET || pos + n > p->end)
		return NULL;
	at = data + pos;
	if (at + n > data_end)
		return NULL;
	p->pos = pos + n;
	return at;
}

static __always_inline void map_ipv4(struct addr *a, __be32 v)
{
	a->word[0] = 0;
	a->word[1] = 0;
	a->word[2] = bpf_htonl(0xffff);
	a->word[3] = v;
}

// is_mapped tells whether an address of an IPv6 header is IPv4-mapped. Such addresses do not belong on a wire (RFC 4942
// section 2.2); here they would pass for the IPv4 address.
static __always_inline int is_mapped(const struct addr *a)
{
	return a->word[0] == 0 && a->word[1] == 0 && a->word[2] == bpf_htonl(0xffff);
}

// limit ends the packet after length more bytes; -1 when the frame does not have them. The length of a quoted packet says
// nothing about the bytes that are here: it is cut short.
static __always_inline int limit(struct packet *p, __u32 length)
{
	if (p->quoted)
		return 0;
	if (p->pos + length > p->end)
		return -1;
	p->end = p->pos + length;
	return 0;
}

// parse_ipv4 reads the IPv4 header; -1 when it contradicts itself or the frame.
static __always_inline int parse_ipv4(struct xdp_md *ctx, struct packet *p)
{
	struct ipv4 *ip = take(ctx, p, sizeof(*ip));
	__u32 header, total;

	if (!ip || ip->version_ihl >> 4 != 4)
		return -1;
	header = (ip->version_ihl & 15) * 4;
	total = bpf_ntohs(ip->length);
	if (header < sizeof(*ip) || total < header || limit(p, total - sizeof(*ip)))
		return -1;
	map_ipv4(&p->src, ip->src);
	map_ipv4(&p->dst, ip->dst);
	p->proto = ip->proto;
	p->later = (ip->fragment & bpf_htons(0x1fff)) != 0;
	p->fragment = (ip->fragment & bpf_htons(0x3fff)) != 0;
	return take(ctx, p, header - sizeof(*ip)) ? 0 : -1;
}

// skip_extension reads one IPv6 extension header (RFC 8200 section 4). It returns 1 when another header may follow, 0 when
// what follows is the transport or unknown, -1 when the header is cut short. Nothing is read behind a routing header with
// segments left, whose packet shows another destination than its own, nor behind AH, which vouches for the addresses: what
// has them is of no flow. Like parse_packet it is a function of its own, which the verifier checks once and not along each
// path to it: inlined, they exceed its limit.
__noinline int skip_extension(struct xdp_md *ctx, struct packet *p)
{
	__u8 *h, kind;

	if (!p)
		return -1;
	kind = p->proto;
	if (kind != PROTO_HOPOPTS && kind != PROTO_ROUTING && kind != PROTO_DSTOPTS && kind != PROTO_FRAGMENT)
		return 0;
	h = take(ctx, p, 8);
	if (!h)
		return -1;
	if (kind == PROTO_ROUTING && h[3] != 0)
		return 0;
	p->proto = h[0];
	if (kind == PROTO_FRAGMENT) {
		p->later = h[2] != 0 || h[3] >> 3 != 0;
		p->fragment = p->later || (h[3] & 1) != 0;
		return !p->later;
	}
	// The length counts units of eight bytes beyond the first eight.
	return take(ctx, p, h[1] * 8) ? 1 : -1;
}

// parse_ipv6 reads the IPv6 header and the extension headers behind which a transport may follow. -1 as parse_ipv4; an
// extension header that is cut short only means that there is no transport.
static __always_inline int parse_ipv6(struct xdp_md *ctx, struct packet *p)
{
	struct ipv6 *ip = take(ctx, p, sizeof(*ip));
	int i, more = 1;

	if (!ip || ip->version_class >> 4 != 6 || limit(p, bpf_ntohs(ip->length)))
		return -1;
	p->src = ip->src;
	p->dst = ip->dst;
	if (is_mapped(&p->src) || is_mapped(&p->dst))
		return -1;
	p->proto = ip->next;
	for (i = 0; i < MAX_EXTENSIONS && more > 0; i++)
		more = skip_extension(ctx, p);
	if (more < 0)
		p->end = p->pos;
	return 0;
}

// parse_transport reads ports, or type and identifier of an ICMP message.
static __always_inline void parse_transport(struct xdp_md *ctx, struct packet *p)
{
	int is_icmp = p->proto == (p->is_ipv6 ? PROTO_ICMPV6 : PROTO_ICMP);
	union transport *t;

	if (p->later || !(is_icmp || p->proto == PROTO_TCP || p->proto == PROTO_UDP || p->proto == PROTO_SCTP))
		return;
	t = take(ctx, p, sizeof(*t));
	if (!t)
		return;
	if (!is_icmp) {
		p->ports = 1;
		p->sport = bpf_ntohs(t->sport);
		p->dport = bpf_ntohs(t->dport);
		return;
	}
	p->icmp = 1;
	p->icmp_type = t->icmp.type;
	p->sport = p->dport = bpf_ntohs(t->icmp.id);
}

// parse_packet reads the IP packet at p->pos up to the end of the first eight transport bytes; -1 when it is malformed.
__noinline int parse_packet(struct xdp_md *ctx, struct packet *p)
{
	if (!p)
		return -1;
	if (p->is_ipv6 ? parse_ipv6(ctx, p) : parse_ipv4(ctx, p))
		return -1;
	parse_transport(ctx, p);
	return 0;
}

static __always_inline int is_error(const struct packet *p)
{
	if (!p->icmp)
		return 0;
	if (p->proto == PROTO_ICMPV6)
		return p->icmp_type >= 1 && p->icmp_type <= 4; // those that RFC 4443 defines
	return p->icmp_type == 3 || p->icmp_type == 4 ||   // destination unreachable, source quench
	       p->icmp_type == 5 || p->icmp_type == 11 ||  // redirect, time exceeded
	       p->icmp_type == 12;                         // parameter problem
}

static __always_inline int is_echo(const struct packet *p, int reply)
{
	if (p->proto == PROTO_ICMPV6)
		return p->icmp && p->icmp_type == (reply ? 129 : 128);
	return p->icmp && p->icmp_type == (reply ? 0 : 8);
}

static __always_inline int is_nodeport(const struct packet *p, __u16 port)
{
	struct nodeport_key key = {.port = port, .proto = p->proto};

	return p->ports && bpf_map_lookup_elem(&nodeports, &key) != NULL;
}

static __always_inline int is_backend(const struct packet *p, const struct addr *a, __u16 port)
{
	struct backend_key key = {.addr = *a, .port = port, .proto = p->proto};

	return p->ports && bpf_map_lookup_elem(&backends, &key) != NULL;
}

// may_be_ours tells whether a fragment may belong to a datagram of ours. Only the first one has ports, and whether that is
// ours or not, the worker has to see it to know what to do with the others.
static __always_inline int may_be_ours(const struct packet *p, __u32 kinds)
{
	struct backend_key key = {.addr = p->src};

	return p->fragment && (kinds & (NODEPORT | SNAT) || bpf_map_lookup_elem(&backends, &key) != NULL);
}

// is_snat tells whether the gateway's end of p, port, was taken from the pool of full NAT. For ICMP the pool gives the
// identifier, and only echo goes through it: p is the reply, or the quoted request.
static __always_inline int is_snat(const struct packet *p, __u16 port, int reply)
{
	__u32 zero = 0;
	struct snat_ports *range;

	if (!is_echo(p, reply) && !p->ports)
		return 0;
	range = bpf_map_lookup_elem(&snat, &zero);
	return range && port != 0 && port >= range->first && port <= range->last;
}

static __always_inline int same(const struct addr *a, const struct addr *b)
{
	return a->word[0] == b->word[0] && a->word[1] == b->word[1] && a->word[2] == b->word[2] &&
	       a->word[3] == b->word[3];
}

// quote_is_ours tells whether the packet quoted in p, an ICMP error sent to an address of these kinds, is one that the gateway
// has sent.
static __always_inline int quote_is_ours(struct xdp_md *ctx, const struct packet *p, __u32 kinds)
{
	struct packet q = {.pos = p->pos, .end = p->end, .is_ipv6 = p->is_ipv6, .quoted = 1};

	if (parse_packet(ctx, &q))
		return 0;
	if (same(&q.src, &p->dst)) {
		if (kinds & NODEPORT && is_nodeport(&q, q.sport))
			return 1;
		if (kinds & SNAT && is_snat(&q, q.sport, 0))
			return 1;
	}
	return is_backend(&q, &q.dst, q.dport);
}

static __always_inline int is_ours(struct xdp_md *ctx, struct packet *p)
{
	struct prefix_key prefix = {.bits = 128};
	__u32 kinds = 0, *found;

	if (parse_packet(ctx, p))
		return 0;
	found = bpf_map_lookup_elem(&addresses, &p->dst);
	if (found)
		kinds = *found;
	if (kinds & SERVICE)
		return 1;
	prefix.addr = p->dst;
	if (bpf_map_lookup_elem(&ranges, &prefix))
		return 1;
	if (may_be_ours(p, kinds))
		return 1;
	if (is_error(p))
		return quote_is_ours(ctx, p, kinds);
	if (kinds & NODEPORT && is_nodeport(p, p->dport))
		return 1;
	if (kinds & SNAT && is_snat(p, p->dport, 1))
		return 1;
	return is_backend(p, &p->src, p->sport);
}

// ether_type reads the Ethernet header and the VLAN tags that are inline; 0 when they are cut short.
static __always_inline __u16 ether_type(struct xdp_md *ctx, struct packet *p)
{
	struct ethhdr *eth = take(ctx, p, sizeof(*eth));
	__be16 *tag;
	__u16 type;
	int i;

	if (!eth)
		return 0;
	type = bpf_ntohs(eth->h_proto);
	for (i = 0; i < MAX_VLANS && (type == ETH_P_8021Q || type == ETH_P_8021AD); i++) {
		tag = take(ctx, p, 4);
		if (!tag)
			return 0;
		type = bpf_ntohs(tag[1]);
	}
	return type;
}

SEC("xdp")
int sluice_classify(struct xdp_md *ctx)
{
	struct packet p = {.end = ctx->data_end - ctx->data};
	__u16 type = ether_type(ctx, &p);
	struct counts *n;
	__u32 zero = 0;
	long verdict;

	n = bpf_map_lookup_elem(&counters, &zero);
	if (!n)
		return XDP_PASS; // cannot be: the verifier does not know that entry 0 exists
	p.is_ipv6 = type == ETH_P_IPV6;
	if ((type != ETH_P_IP && type != ETH_P_IPV6) || !is_ours(ctx, &p)) {
		n->passed++;
		return XDP_PASS;
	}
	// Without a socket on this queue the packet is dropped: the kernel would answer it with a reset.
	verdict = bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_DROP);
	if (verdict == XDP_REDIRECT)
		n->redirected++;
	else
		n->no_socket++;
	return verdict;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
