package zone

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"sluice/config/topology"
)

// large returns a topology of verified pods and services with 15 of them each.
func large(pods, services int) *topology.Topology {
	top := &topology.Topology{Cluster: topology.Cluster{Domain: "cluster.local"}, DNS: topology.DNS{TTL: 5, Pods: topology.PodsVerified,
		ReverseZones: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}}
	for i := range pods {
		top.Pods = append(top.Pods, topology.Pod{Namespace: fmt.Sprintf("team-%02d", i%50), Name: fmt.Sprintf("pod-%06d", i),
			Addresses: []netip.Addr{podAddr(i)}, Phase: "Running"})
	}
	ports := map[string]uint16{"http": 8080}
	for i := range services {
		s := topology.Service{Namespace: fmt.Sprintf("team-%02d", i%50), Name: fmt.Sprintf("app-%05d", i),
			ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 250, byte(i >> 8), byte(i)})},
			Ports:      []topology.Port{{Name: "http", Protocol: topology.TCP, Port: 80}}}
		for j := range 15 {
			k := (15*i + j) % pods
			s.Endpoints = append(s.Endpoints, topology.Endpoint{Address: podAddr(k), Pod: top.Pods[k].Name, Ready: true, Ports: ports})
		}
		top.Services = append(top.Services, s)
	}
	for i := range 50 {
		top.Namespaces = append(top.Namespaces, topology.Namespace{Name: fmt.Sprintf("team-%02d", i)})
	}
	slices.SortFunc(top.Services, func(a, b topology.Service) int { return strings.Compare(a.Key(), b.Key()) })
	return top
}

func podAddr(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
}

// moved returns the topology with another address for an endpoint of the service in the middle. It shares nothing with it that a
// topology read anew would not share.
func moved(top *topology.Topology) *topology.Topology {
	next := *top
	next.Services = slices.Clone(top.Services)
	for i := range next.Services {
		next.Services[i].Endpoints = slices.Clone(next.Services[i].Endpoints)
	}
	next.Services[len(next.Services)/2].Endpoints[7].Address = netip.MustParseAddr("10.249.0.1")
	return &next
}
