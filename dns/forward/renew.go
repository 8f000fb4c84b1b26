package forward

import "sluice/config/topology"

// Renew returns the forwarder for a topology: f itself, which may be nil, if it asks the same servers, another otherwise, and nil if
// nothing is forwarded. Files that list servers are read again. The caller closes f when it is not what is returned; on an error f stays
// what it is.
func Renew(f *Forwarder, d *topology.DNS, opts Options) (*Forwarder, error) {
	if !d.Forwards() {
		return nil, nil
	}
	servers, err := ServersOf(d)
	if err != nil {
		return nil, err
	}
	if f != nil && f.servers.Equal(servers) {
		return f, nil
	}
	return New(servers, opts), nil
}
