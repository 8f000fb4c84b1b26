package zone

import (
	"sluice/config/topology"
	"sluice/dns/wire"
)

// outside says for which names of no zone there is someone to ask.
type outside struct {
	all   bool
	stubs map[string]struct{} // domains in wire form and lower case
}

func newOutside(d *topology.DNS) (o outside, err error) {
	o.all = len(d.Forward) > 0
	for _, s := range d.Stubs {
		domain, err := wire.Name(s.Domain)
		if err != nil {
			return o, err
		}
		if o.stubs == nil {
			o.stubs = map[string]struct{}{}
		}
		o.stubs[domain] = struct{}{}
	}
	return o, nil
}

// Forwards reports whether other servers are asked for anything at all.
func (z *Zones) Forwards() bool { return z.outside.all || len(z.outside.stubs) > 0 }

// Outside reports whether there is someone to ask for a name that lies in no zone.
func (z *Zones) Outside(q *wire.Question) bool {
	if z.outside.all {
		return true
	}
	for n := q.Labels(); n > 0 && len(z.outside.stubs) > 0; n-- {
		if _, ok := z.outside.stubs[string(q.Suffix(n))]; ok {
			return true
		}
	}
	return false
}
