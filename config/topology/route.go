package topology

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Limits of the Gateway API (TCPRouteRule and UDPRouteRule, BackendRef).
const (
	maxRouteBackends = 16
	maxRouteWeight   = 1_000_000
)

// Problems of a route's backend, named as the reasons of the condition ResolvedRefs in the Gateway API.
const (
	BackendNotFound = "BackendNotFound" // there is no such service, or it has no such port
	RefNotPermitted = "RefNotPermitted" // it is in another namespace
)

// routeAt is a route on its way through the resolver.
type routeAt struct {
	in    *RouteInput
	path  string // of its table
	paths []string
	Route
}

// readRoutes reads the routes and keeps their listeners' addresses from being allocated to services.
func (r *resolver) readRoutes() {
	for _, kind := range []struct {
		key   string
		proto Protocol
		list  []RouteInput
	}{{"tcp_route", TCP, r.in.TCPRoutes}, {"udp_route", UDP, r.in.UDPRoutes}} {
		seen := map[string]bool{}
		for i := range kind.list {
			in := &kind.list[i]
			at := routeAt{in: in, path: fmt.Sprintf("%s[%d]", kind.key, i),
				Route: Route{Namespace: in.Namespace, Name: in.Name, Protocol: kind.proto, Created: in.Created}}
			r.routeName(&at, seen)
			r.routeListen(&at)
			r.routes = append(r.routes, at)
		}
	}
}

// routeName checks the name, and that it is the only route of its kind with it.
func (r *resolver) routeName(at *routeAt, seen map[string]bool) {
	okNS := r.label(at.path+".namespace", "namespace", at.Namespace)
	if !isSubdomain(at.Name) {
		r.fault(at.path+".name", "route name %q is not a DNS name: expected lower-case labels", at.Name)
	} else if okNS && seen[at.Key()] {
		r.fault(at.path+".name", "route %s is there twice", at.Key())
	}
	seen[at.Key()] = true
}

// routeListen reads the listeners of a route. Their addresses obey the rules of external IPs: a route must not take over the
// traffic of a node or of a service (CVE-2020-8554).
func (r *resolver) routeListen(at *routeAt) {
	if len(at.in.Listen) == 0 {
		r.fault(at.path+".listen", "missing: expected addresses with ports, like [\"203.0.113.5:443\"]")
	}
	for i, s := range at.in.Listen {
		path := fmt.Sprintf("%s.listen[%d]", at.path, i)
		l, err := netip.ParseAddrPort(s)
		if err != nil || l.Port() == 0 || l.Addr().Zone() != "" || l.Addr().Is4In6() {
			r.fault(path, "%q is not an address with a port: expected one like \"203.0.113.5:443\" or \"[2001:db8::5]:443\"",
				s)
			continue
		}
		if slices.Contains(at.Listen, l) {
			r.fault(path, "%v is there twice: two listeners of one protocol on one port are in conflict", l)
			continue
		}
		if r.listenAddr(path, l.Addr()) {
			r.owners.external[l.Addr()] = true
			at.Listen, at.paths = append(at.Listen, l), append(at.paths, path)
		}
	}
}

// listenAddr checks the address of a listener.
func (r *resolver) listenAddr(path string, a netip.Addr) bool {
	allowed := r.out.Cluster.ExternalIPCIDRs
	node, isNode := r.owners.nodeAddr[a]
	cidr, isCluster := containing(a, r.out.Cluster.ServiceCIDRs)
	_, isAllowed := containing(a, allowed)
	switch {
	case !hostAddr(a):
		r.fault(path, "%v cannot be the address of a listener", a)
	case isNode:
		r.fault(path, "%v is an address of node %q", a, node)
	case isCluster:
		r.fault(path, "%v is inside the service range %v, which is for ClusterIPs", a, cidr)
	case len(allowed) > 0 && !isAllowed:
		r.fault(path, "%v is not in cluster.external_ip_cidrs", a)
	default:
		return true
	}
	return false
}

// resolveRoutes gives listeners to routes, the oldest first, and looks up their backends. Services have all their addresses.
func (r *resolver) resolveRoutes() {
	services := map[string]*Service{}
	for i := range r.out.Services {
		services[r.out.Services[i].Key()] = &r.out.Services[i]
	}
	slices.SortStableFunc(r.routes, func(a, b routeAt) int { return compareRoutes(&a.Route, &b.Route) })
	taken := map[ownerKey]string{}
	for i := range r.routes {
		at := &r.routes[i]
		r.claimListeners(at, taken)
		r.routeBackends(at, services)
		r.out.Routes = append(r.out.Routes, at.Route)
	}
}

// compareRoutes orders routes by precedence: the oldest first, then by "namespace/name" (Gateway API, conflicts of routes).
// One whose time of creation is not given is younger than all others, so that adding it takes nothing away from those.
func compareRoutes(a, b *Route) int {
	unknown := func(t time.Time) int {
		if t.IsZero() {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(unknown(a.Created), unknown(b.Created)), a.Created.Compare(b.Created),
		strings.Compare(a.Key(), b.Key()), cmp.Compare(a.Protocol, b.Protocol))
}

// claimListeners takes the listeners of a route that no service and no older route has.
func (r *resolver) claimListeners(at *routeAt, taken map[ownerKey]string) {
	all := at.Listen
	at.Listen = nil
	for i, l := range all {
		k := ownerKey{l.Addr(), at.Protocol, l.Port()}
		if owner := r.owners.fronts[k]; owner != "" {
			r.fault(at.paths[i], "%v/%s belongs to service %s already", l, at.Protocol, owner)
			continue
		}
		if winner := taken[k]; winner != "" {
			at.Lost = append(at.Lost, LostListener{Listen: l, Winner: winner})
			continue
		}
		taken[k] = at.Key()
		at.Listen = append(at.Listen, l)
	}
}

// routeBackends resolves the shares of a route.
func (r *resolver) routeBackends(at *routeAt, services map[string]*Service) {
	if n := len(at.in.Backends); n == 0 || n > maxRouteBackends {
		r.fault(at.path+".backend", "%d backends: expected 1 to %d", n, maxRouteBackends)
	}
	for i := range at.in.Backends {
		in, path := &at.in.Backends[i], fmt.Sprintf("%s.backend[%d]", at.path, i)
		if in.Weight < 0 || in.Weight > maxRouteWeight {
			r.fault(path+".weight", "%d is out of range: expected 0 to %d", in.Weight, maxRouteWeight)
		}
		ns, name, ok := strings.Cut(in.Service, "/")
		if !ok || !isLabel(ns) || !isLabel(name) {
			r.fault(path+".service", "%q is not a service: expected \"namespace/name\"", in.Service)
			continue
		}
		number, text, ok := r.routePort(path+".port", in.Port)
		if !ok {
			continue
		}
		b := RouteBackend{Service: in.Service, Port: text, Weight: in.Weight}
		if ns != at.Namespace { // before anything about that namespace shows
			b.Problem = RefNotPermitted
		} else if p := servicePort(services[in.Service], at.Protocol, number, text); p != nil {
			b.Port = p.Name
		} else {
			b.Problem = BackendNotFound
		}
		at.Backends = append(at.Backends, b)
	}
}

// routePort reads the name or the number of a service port. Of a number it returns the text too.
func (r *resolver) routePort(path string, v any) (number uint16, text string, ok bool) {
	switch v := v.(type) {
	case string:
		return 0, v, r.label(path, "port name", v)
	case int64:
		number, ok = r.port(path, v)
		return number, fmt.Sprint(v), ok
	case nil:
		r.fault(path, "missing: expected the name or the number of a port of the service")
	default:
		r.fault(path, "expected the name or the number of a port of the service, like \"web\" or 80")
	}
	return 0, "", false
}

// servicePort returns the port of s that a route of a protocol refers to by number or, when that is 0, by name. It is nil
// when there is none. A service without ClusterIP has none: the gateway does not serve its ports.
func servicePort(s *Service, proto Protocol, number uint16, name string) *Port {
	if s == nil || s.Headless || s.Type == ExternalName {
		return nil
	}
	for i := range s.Ports {
		p := &s.Ports[i]
		if p.Protocol == proto && (number != 0 && p.Port == number || number == 0 && p.Name == name) {
			return p
		}
	}
	return nil
}
