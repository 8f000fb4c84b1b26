package forward

import (
	"sync"

	"sluice/config/topology"
)

// Current is the forwarder that is in use, over changes of the topology.
//
// Concurrency: all methods may be called by any goroutine.
type Current struct {
	opts Options

	mu      sync.Mutex
	in      *Forwarder // nil: nothing is forwarded
	retired Counters   // of those before
}

// NewCurrent returns one that forwards nothing yet.
func NewCurrent(opts Options) *Current {
	opts.defaults()
	return &Current{opts: opts}
}

// Follow returns the forwarder for a topology, nil if nothing is forwarded: the one in use if it asks the same servers. Files that list
// servers are read again. retire ends the forwarder from before, if it is another; it is called once queries see the new one. On an error
// everything stays as it was.
func (c *Current) Follow(d *topology.DNS) (next *Forwarder, retire func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var servers Servers
	if d.Forwards() {
		if servers, err = ServersOf(d); err != nil {
			return c.in, func() {}, err
		}
	}
	before := c.in
	switch {
	case before == nil && servers == nil, before != nil && before.servers.Equal(servers):
		return before, func() {}, nil
	case servers == nil:
		c.in = nil
	default:
		c.in = New(servers, c.opts)
	}
	c.opts.Log.Info("other names are forwarded", "servers", c.in)
	return c.in, func() { c.retire(before) }, nil
}

// retire ends a forwarder and keeps what it has counted.
func (c *Current) retire(f *Forwarder) {
	if f == nil {
		return
	}
	f.Close()
	counted := f.Counters()
	counted.Entries, counted.Upstreams, counted.Unhealthy = 0, 0, 0
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retired.Add(counted)
}

// Counters returns what all forwarders together have counted.
func (c *Current) Counters() Counters {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := c.retired
	if c.in != nil {
		sum.Add(c.in.Counters())
	}
	return sum
}

// Close ends the forwarder in use.
func (c *Current) Close() {
	c.mu.Lock()
	f := c.in
	c.in = nil
	c.mu.Unlock()
	c.retire(f)
}
