package healthz

// MaxConns is maxConns, for tests outside the package.
const MaxConns = maxConns

// Retry does what Run does now and then.
func (p *Ports) Retry() { p.retry() }
