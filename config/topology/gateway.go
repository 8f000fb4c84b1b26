package topology

import (
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
)

func (r *resolver) gateway() {
	in, out := &r.in.Gateway, &r.out.Gateway
	r.gatewayNode()
	r.interfaces()
	r.oneOf("gateway.driver", in.Driver, "afxdp", "asavie")
	r.oneOf("gateway.xdp_mode", in.XDPMode, "auto", "native", "generic")
	r.oneOf("gateway.flow_cache", in.FlowCache, "auto", "off")
	r.oneOf("gateway.checksum", in.Checksum, "auto", "incremental", "full")
	if in.Queues < 0 {
		r.fault("gateway.queues", "%d is negative: expected a number of receive queues, or 0 for all", in.Queues)
	}
	out.Driver, out.XDPMode, out.Checksum, out.Queues = in.Driver, in.XDPMode, in.Checksum, in.Queues
	out.PodCIDRs = r.prefixes("gateway.pod_cidrs", in.PodCIDRs)
	out.MasqueradeAll, out.StateFile = in.MasqueradeAll, in.StateFile
	r.snat()
	r.nodePortAddresses()
	r.listeners()
}

// gatewayNode finds the node that this machine is.
func (r *resolver) gatewayNode() {
	name, out := r.in.Gateway.Node, &r.out.Gateway
	path := "gateway.node"
	if name == "" {
		host, err := os.Hostname()
		if err != nil {
			r.fault(path, "not given, and the host's name cannot be had: %v", err)
			return
		}
		name = strings.ToLower(host)
	}
	out.Node = name
	n := r.nodes[name]
	if n == nil {
		hint := "add a [[node]] of this name with its addresses"
		if near := Nearest(name, slices.Sorted(maps.Keys(r.nodes))); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		r.hinted(path, hint, "no [[node]] is named %q", name)
		return
	}
	// Addresses that are given and cannot be read have been reported themselves.
	given := slices.ContainsFunc(r.in.Nodes, func(in NodeInput) bool { return in.Name == name && len(in.Addresses) > 0 })
	if !given {
		r.fault(path, "node %q has no addresses: replies of backends need one to come back to", name)
	}
	out.Zone, out.LocalAddresses = n.Zone, n.Addresses
}

func (r *resolver) interfaces() {
	for i, name := range r.in.Gateway.Interfaces {
		path := fmt.Sprintf("gateway.interfaces[%d]", i)
		if name == "" || len(name) > 15 || strings.ContainsAny(name, "/ \t") {
			r.fault(path, "%q is not a name of an interface: expected up to 15 characters without blanks and '/'", name)
		}
		if slices.Contains(r.out.Gateway.Interfaces, name) {
			r.fault(path, "%q is there twice", name)
		}
		r.out.Gateway.Interfaces = append(r.out.Gateway.Interfaces, name)
	}
}

// primary returns the first address of each family, IPv4 first.
func primary(addrs []netip.Addr) (out []netip.Addr) {
	for _, v4 := range []bool{true, false} {
		if i := slices.IndexFunc(addrs, func(a netip.Addr) bool { return a.Is4() == v4 }); i >= 0 {
			out = append(out, addrs[i])
		}
	}
	return out
}

func (r *resolver) snat() {
	in, out := &r.in.Gateway, &r.out.Gateway
	given, paths := r.addrs("gateway.snat_addresses", in.SNATAddresses)
	out.SNATAddresses = primary(given)
	for i, a := range given {
		if !slices.Contains(out.LocalAddresses, a) {
			r.fault(paths[i], "%v is not an address of node %q", a, out.Node)
		}
	}
	if len(given) > len(out.SNATAddresses) {
		r.fault("gateway.snat_addresses", "%d addresses: expected at most one of each family", len(given))
	}
	if len(given) == 0 {
		out.SNATAddresses = primary(out.LocalAddresses)
	}
	out.SNATPorts = r.portRange("gateway.snat_ports", in.SNATPorts)
	np := r.out.Cluster.NodePortRange
	if out.SNATPorts.First <= np.Last && np.First <= out.SNATPorts.Last && np.Last > 0 {
		r.fault("gateway.snat_ports", "%s overlaps cluster.node_port_range %d-%d: replies could not be told from requests",
			in.SNATPorts, np.First, np.Last)
	}
}

// nodePortAddresses resolves the keyword or the prefixes to addresses of the node. Loopback is never among them.
func (r *resolver) nodePortAddresses() {
	const path = "gateway.nodeport_addresses"
	out := &r.out.Gateway
	var chosen []netip.Addr
	switch v := r.in.Gateway.NodePortAddresses.(type) {
	case string:
		if !r.oneOf(path, v, "primary", "all") {
			return
		}
		if chosen = out.LocalAddresses; v == "primary" {
			chosen = primary(out.LocalAddresses)
		}
	case []any:
		chosen = r.nodePortPrefixes(path, v)
	default:
		r.fault(path, "expected \"primary\", \"all\" or a list of prefixes")
	}
	for _, a := range chosen {
		if !a.IsLoopback() {
			out.NodePortAddresses = append(out.NodePortAddresses, a)
		}
	}
}

// nodePortPrefixes returns the node's addresses inside the prefixes. A family of which no prefix is given has all its
// addresses, as in kube-proxy.
func (r *resolver) nodePortPrefixes(path string, list []any) (chosen []netip.Addr) {
	var texts []string
	for i, v := range list {
		s, ok := v.(string)
		if !ok {
			r.fault(fmt.Sprintf("%s[%d]", path, i), "expected a prefix like \"198.18.0.0/24\"")
			return nil
		}
		texts = append(texts, s)
	}
	prefixes := r.prefixes(path, texts)
	for _, a := range r.out.Gateway.LocalAddresses {
		given, inside := false, false
		for _, p := range prefixes {
			given = given || p.Addr().Is4() == a.Is4()
			inside = inside || p.Contains(a)
		}
		if inside || !given {
			chosen = append(chosen, a)
		}
	}
	return chosen
}

// listeners checks where the admin and metrics servers listen.
func (r *resolver) listeners() {
	in, out := &r.in.Gateway, &r.out.Gateway
	if in.Admin != "" {
		path, ok := strings.CutPrefix(in.Admin, "unix:")
		if !ok || !strings.HasPrefix(path, "/") || len(path) > 107 {
			r.fault("gateway.admin", "%q is not a Unix socket: expected one like \"unix:/run/sluice/admin.sock\"", in.Admin)
		}
		out.Admin = path
	}
	if in.Metrics != "" {
		if _, err := netip.ParseAddrPort(in.Metrics); err != nil {
			r.fault("gateway.metrics", "%q is not an address to listen on: expected one like \"127.0.0.1:10249\"", in.Metrics)
		}
		out.Metrics = in.Metrics
	}
}
