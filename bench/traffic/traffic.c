//go:build ignore

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The two ends of a load run, and the simplest thing that can stand between them. See package sluice/bench/traffic.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define HEADERS (sizeof(struct ethhdr) + sizeof(struct iphdr) + sizeof(struct udphdr))

// Set by the loader before the programs are loaded.
volatile const __u32 out_ifindex; // where generate and forward send to
volatile const __u32 flow_mask;   // number of flows minus one; a power of two minus one
volatile const __u32 src_base;    // first source address, host byte order
volatile const __u32 udp_sum;     // ones' complement sum of all that the UDP checksum covers but the parts that vary
volatile const __u32 ip_sum;      // the same for the IPv4 header
volatile const __u8 next_hop[6];  // destination MAC that forward writes
volatile const __u8 own_mac[6];   // source MAC that forward writes
volatile const __u16 sink_port;   // UDP port, network byte order: destination of what the sink counts and echo returns, source of replies

// template holds the headers that every generated frame starts with. Written by Go once, read by generate.
struct headers {
	__u8 bytes[HEADERS];
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct headers);
} template SEC(".maps");

// counts holds, per CPU: frames generated or forwarded (0), frames that reached the sink (1), other frames there (2), and
// DNS replies by response code (3 to 18).
#define REPLIES 3
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, REPLIES + 16);
	__type(key, __u32);
	__type(value, __u64);
} counts SEC(".maps");

static __always_inline __u64 count(__u32 key)
{
	__u64 *n = bpf_map_lookup_elem(&counts, &key);

	return n ? (*n)++ : 0;
}

static __always_inline __u16 fold(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return bpf_htons(~sum);
}

// generate writes every header byte, since the kernel hands the same pages out again with whatever became of them, and
// sends the frame out as one of flow_mask + 1 flows, 16384 source ports to an address.
SEC("xdp")
int generate(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip = data + sizeof(*eth);
	struct udphdr *udp = (void *)ip + sizeof(*ip);
	__u32 zero = 0;
	struct headers *t = bpf_map_lookup_elem(&template, &zero);

	if (!t || data + HEADERS > end)
		return XDP_ABORTED;
	__builtin_memcpy(data, t->bytes, HEADERS);

	__u32 flow = count(0) & flow_mask;
	__u16 port = 1024 + (flow & 0x3fff);
	__u32 addr = src_base + (flow >> 14);
	__u32 addr_sum = (addr >> 16) + (addr & 0xffff);

	ip->saddr = bpf_htonl(addr);
	ip->check = fold(ip_sum + addr_sum);
	udp->source = bpf_htons(port);
	__u16 check = fold(udp_sum + addr_sum + port);
	udp->check = check ? check : 0xffff;
	return bpf_redirect(out_ifindex, 0);
}

// forward is the least that a router in XDP can do: new link-layer addresses, and out again.
SEC("xdp")
int forward(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;

	if (data + sizeof(*eth) > end || eth->h_proto != bpf_htons(ETH_P_IP))
		return XDP_PASS;
	for (int i = 0; i < 6; i++) {
		eth->h_dest[i] = next_hop[i];
		eth->h_source[i] = own_mac[i];
	}
	count(0);
	return bpf_redirect(out_ifindex, 0);
}

// sink counts UDP datagrams to sink_port and drops them; all else goes to the kernel, counted apart.
SEC("xdp")
int sink(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip = data + sizeof(*eth);
	struct udphdr *udp = (void *)ip + sizeof(*ip);

	if (data + HEADERS <= end && eth->h_proto == bpf_htons(ETH_P_IP) && ip->protocol == IPPROTO_UDP &&
	    udp->dest == sink_port) {
		count(1);
		return XDP_DROP;
	}
	count(2);
	return XDP_PASS;
}

// dns_header is the first words of a DNS message (RFC 1035 section 4.1.1).
struct dns_header {
	__u16 id;
	__u8 flags; // the highest bit: a reply
	__u8 rcode; // the lowest four bits
};

// replies counts DNS replies from sink_port by response code and drops them; all else goes to the kernel.
SEC("xdp")
int replies(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip = data + sizeof(*eth);
	struct udphdr *udp = (void *)ip + sizeof(*ip);
	struct dns_header *dns = (void *)udp + sizeof(*udp);

	if (data + HEADERS + sizeof(*dns) > end || eth->h_proto != bpf_htons(ETH_P_IP) || ip->protocol != IPPROTO_UDP ||
	    udp->source != sink_port || !(dns->flags & 0x80))
		return XDP_PASS;
	count(REPLIES + (dns->rcode & 15));
	return XDP_DROP;
}

// echo sends each UDP datagram to sink_port back as its own DNS reply: what a server costs that does nothing.
SEC("xdp")
int echo(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip = data + sizeof(*eth);
	struct udphdr *udp = (void *)ip + sizeof(*ip);
	struct dns_header *dns = (void *)udp + sizeof(*udp);
	__u8 mac[6];

	if (data + HEADERS + sizeof(*dns) > end || eth->h_proto != bpf_htons(ETH_P_IP) || ip->protocol != IPPROTO_UDP ||
	    udp->dest != sink_port)
		return XDP_PASS;
	__builtin_memcpy(mac, eth->h_dest, sizeof(mac));
	__builtin_memcpy(eth->h_dest, eth->h_source, sizeof(mac));
	__builtin_memcpy(eth->h_source, mac, sizeof(mac));

	__be32 addr = ip->saddr;

	ip->saddr = ip->daddr;
	ip->daddr = addr;
	udp->dest = udp->source;
	udp->source = sink_port;
	dns->flags |= 0x80;
	udp->check = 0; // none, which IPv4 allows
	return XDP_TX;
}

// pass lets everything through: a program on a veth makes its peer a device that can take redirected frames.
SEC("xdp")
int pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}

char _license[] SEC("license") = "Dual BSD/GPL";
