package control

import (
	"reflect"

	"sluice/config/topology"
)

// Diff says how many services and endpoints two topologies differ in. An endpoint is an address behind a service; one whose
// state or weight is another, and a service whose own settings are others, count as changed.
type Diff struct {
	ServicesAdded, ServicesRemoved, ServicesChanged    int
	EndpointsAdded, EndpointsRemoved, EndpointsChanged int
}

// Compare returns what has to change in a for it to become b.
func Compare(a, b *topology.Topology) Diff {
	var d Diff
	before := make(map[string]*topology.Service, len(a.Services))
	for i := range a.Services {
		before[a.Services[i].Key()] = &a.Services[i]
	}
	for i := range b.Services {
		now := &b.Services[i]
		was := before[now.Key()]
		delete(before, now.Key())
		if was == nil {
			d.ServicesAdded++
			was = &topology.Service{}
		} else if !sameSettings(was, now) {
			d.ServicesChanged++
		}
		d.endpoints(was, now)
	}
	for _, was := range before {
		d.ServicesRemoved++
		d.endpoints(was, &topology.Service{})
	}
	return d
}

// sameSettings compares two services but for their endpoints.
func sameSettings(a, b *topology.Service) bool {
	x, y := *a, *b
	x.Endpoints, x.Slices, y.Endpoints, y.Slices = nil, nil, nil, nil
	return reflect.DeepEqual(x, y)
}

// endpoints adds what two states of a service differ in. Two endpoints may have one address; they are paired in their order.
func (d *Diff) endpoints(a, b *topology.Service) {
	before := map[string][]*topology.Endpoint{}
	for i := range a.Endpoints {
		e := &a.Endpoints[i]
		before[e.Address.String()] = append(before[e.Address.String()], e)
	}
	for i := range b.Endpoints {
		now := &b.Endpoints[i]
		key := now.Address.String()
		was := before[key]
		if len(was) == 0 {
			d.EndpointsAdded++
			continue
		}
		before[key] = was[1:]
		if !reflect.DeepEqual(was[0], now) {
			d.EndpointsChanged++
		}
	}
	for _, rest := range before {
		d.EndpointsRemoved += len(rest)
	}
}
