package topology

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// TestDNSAddress covers where a gateway answers DNS: at an address that is asked for, at that of the cluster's DNS service, or nowhere.
func TestDNSAddress(t *testing.T) {
	dns := func(in *Input) {
		addService(in, "kube-dns", func(s *ServiceInput) {
			s.Namespace, s.ClusterIPs, s.IPFamilyPolicy = "kube-system", []string{"10.96.0.10", "fd00:96::a"}, "RequireDualStack"
		})
	}
	for _, tc := range []struct {
		name    string
		address string
		change  func(*Input)
		want    []string
		fault   string
	}{
		{"no such service", "", func(*Input) {}, nil, ""},
		{"the service's", "", dns, []string{"10.96.0.10", "fd00:96::a"}, ""},
		{"headless", "", func(in *Input) {
			addService(in, "kube-dns", func(s *ServiceInput) { s.Namespace, s.ClusterIPs = "kube-system", []string{"None"} })
		}, nil, ""},
		{"another namespace's", "", func(in *Input) { addService(in, "kube-dns", nil) }, nil, ""},
		{"none", "none", dns, nil, ""},
		{"asked for, instead of the service's", "203.0.113.53", dns, []string{"203.0.113.53"}, ""},
		{"one of the service range", "10.96.0.53", func(*Input) {}, []string{"10.96.0.53"}, ""},
		{"IPv6", "2001:db8:53::1", func(*Input) {}, []string{"2001:db8:53::1"}, ""},
		{"a service's", "10.96.0.10", dns, []string{"10.96.0.10"}, ""},
		{"no address", "resolver", func(*Input) {}, nil, "\"resolver\" is not an address"},
		{"with a zone", "fe80::1%eth0", func(*Input) {}, nil, "is not an address"},
		{"loopback", "127.0.0.53", func(*Input) {}, nil, "cannot be a service address"},
		{"multicast", "ff02::fb", func(*Input) {}, nil, "cannot be a service address"},
		{"the gateway's own", "198.18.0.10", func(*Input) {}, nil, "an address of node"},
		{"the network's", "10.96.0.0", func(*Input) {}, nil, "network or broadcast address"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := input("10.96.0.0/16", "fd00:96::/112")
			in.DNS.Address = tc.address
			tc.change(in)
			out, faults := Resolve(in)
			if tc.fault != "" {
				if len(faults) != 1 || faults[0].Path != "dns.address" || !strings.Contains(faults[0].Message, tc.fault) {
					t.Fatalf("faults %v", faults)
				}
				return
			}
			if len(faults) > 0 {
				t.Fatal(faults)
			}
			var got []string
			for _, a := range out.DNS.Addresses {
				got = append(got, a.String())
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
}

// TestDNSAddressIsTaken: what DNS has no service is given.
func TestDNSAddressIsTaken(t *testing.T) {
	in := input("10.96.0.0/16", "fd00:96::/112")
	in.Cluster.ServiceCIDRs = []string{"10.96.0.0/30"} // two addresses
	in.DNS.Address = "10.96.0.1"
	addService(in, "a", nil)
	out, faults := Resolve(in)
	if len(faults) > 0 || !slices.Equal(out.Services[0].ClusterIPs, []netip.Addr{netip.MustParseAddr("10.96.0.2")}) {
		t.Fatalf("%v, faults %v", out, faults)
	}
	addService(in, "b", nil)
	if _, faults := Resolve(in); len(faults) != 1 {
		t.Errorf("faults %v, want one: there is no address left", faults)
	}
}
