package control_test

import (
	"testing"

	"sluice/config/topology"
	"sluice/engine/control"
)

func TestCompare(t *testing.T) {
	cart := func(endpoints ...string) topology.Service { return serviceOn("cart", "198.19.0.10", endpoints...) }
	other := serviceOn("other", "198.19.0.20", "198.18.1.11", "198.18.1.12")
	moved := cart("198.18.1.11")
	moved.ClusterIPs = other.ClusterIPs
	draining := cart("198.18.1.11")
	draining.Endpoints[0].Weight = 0
	for _, tc := range []struct {
		name     string
		from, to []topology.Service
		want     control.Diff
	}{
		{"nothing", []topology.Service{cart("198.18.1.11")}, []topology.Service{cart("198.18.1.11")}, control.Diff{}},
		{"order", []topology.Service{cart(), other}, []topology.Service{other, cart()}, control.Diff{}},
		{"service added", nil, []topology.Service{other}, control.Diff{ServicesAdded: 1, EndpointsAdded: 2}},
		{"service removed", []topology.Service{other, cart()}, []topology.Service{cart()},
			control.Diff{ServicesRemoved: 1, EndpointsRemoved: 2}},
		{"service changed", []topology.Service{cart("198.18.1.11")}, []topology.Service{moved}, control.Diff{ServicesChanged: 1}},
		{"endpoint moved", []topology.Service{cart("198.18.1.11", "198.18.1.12")}, []topology.Service{cart("198.18.1.12", "198.18.1.13")},
			control.Diff{EndpointsAdded: 1, EndpointsRemoved: 1}},
		{"endpoint changed", []topology.Service{cart("198.18.1.11")}, []topology.Service{draining}, control.Diff{EndpointsChanged: 1}},
		{"one of two with one address gone", []topology.Service{cart("198.18.1.11", "198.18.1.11")},
			[]topology.Service{cart("198.18.1.11")}, control.Diff{EndpointsRemoved: 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := control.Compare(&topology.Topology{Services: tc.from}, &topology.Topology{Services: tc.to}); got != tc.want {
				t.Errorf("got  %+v\nwant %+v", got, tc.want)
			}
		})
	}
}
