package config

import (
	"fmt"
	"io"
	"net/netip"
	"text/tabwriter"
	"time"

	"sluice/config/topology"
)

// RouteReport is one route as resolved.
type RouteReport struct {
	Namespace string               `json:"namespace"`
	Name      string               `json:"name"`
	Protocol  topology.Protocol    `json:"protocol"`
	Created   string               `json:"created"` // as in RFC 3339, in UTC; "" when it is not given
	Listen    []netip.AddrPort     `json:"listen"`
	Lost      []LostListenerReport `json:"lost"` // listeners that an older route has
	Backends  []RouteBackendReport `json:"backends"`
}

// LostListenerReport is a listener of a route that an older one has.
type LostListenerReport struct {
	Listen netip.AddrPort `json:"listen"`
	Winner string         `json:"winner"` // "namespace/name" of that route
}

// RouteBackendReport is a share of a route.
type RouteBackendReport struct {
	Service string `json:"service"` // "namespace/name"
	Port    string `json:"port"`
	Weight  int    `json:"weight"`
	Problem string `json:"problem"` // why the share is refused: BackendNotFound or RefNotPermitted; "" when it is not
}

func reportRoute(r *topology.Route) RouteReport {
	out := RouteReport{Namespace: r.Namespace, Name: r.Name, Protocol: r.Protocol,
		Listen: append([]netip.AddrPort{}, r.Listen...), Lost: []LostListenerReport{}, Backends: []RouteBackendReport{}}
	if !r.Created.IsZero() {
		out.Created = r.Created.UTC().Format(time.RFC3339Nano)
	}
	for _, l := range r.Lost {
		out.Lost = append(out.Lost, LostListenerReport(l))
	}
	for _, b := range r.Backends {
		out.Backends = append(out.Backends, RouteBackendReport(b))
	}
	return out
}

// routesText writes a table of routes; nothing when there are none.
func (r *Report) routesText(w io.Writer) error {
	if len(r.Routes) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ROUTE\tPROTOCOL\tLISTEN\tBACKENDS")
	for i := range r.Routes {
		route := &r.Routes[i]
		fmt.Fprintf(t, "%s/%s\t%s\t%s\t%s\n", route.Namespace, route.Name, route.Protocol, dash(route.listeners()),
			dash(route.shares()))
	}
	return t.Flush()
}

// listeners lists the listeners, those that are lost with the route that has them.
func (r *RouteReport) listeners() (out []string) {
	for _, l := range r.Listen {
		out = append(out, l.String())
	}
	for _, l := range r.Lost {
		out = append(out, fmt.Sprintf("%v(lost to %s)", l.Listen, l.Winner))
	}
	return out
}

// shares lists the backends as service:port=weight.
func (r *RouteReport) shares() (out []string) {
	for _, b := range r.Backends {
		text := b.Service
		if b.Port != "" {
			text += ":" + b.Port
		}
		text += fmt.Sprintf("=%d", b.Weight)
		if b.Problem != "" {
			text += "(" + b.Problem + ")"
		}
		out = append(out, text)
	}
	return out
}
