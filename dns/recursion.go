package dns

import (
	"context"
	"sync"
	"sync/atomic"

	"sluice/dns/wire"
)

// recursion has the rest of answers looked up that the zones do not hold. How many are looked up at once is bounded, and as many more
// wait; when there are still more, the one that has waited longest gets a server failure, since its client is the likeliest to have
// given up.
//
// Concurrency: all methods may be called by any goroutine.
type recursion struct {
	limit   int
	shed    atomic.Uint64
	ctx     context.Context
	cancel  context.CancelFunc
	done    sync.WaitGroup
	buffers sync.Pool // of *[TCPLimit]byte

	mu      sync.Mutex
	running int
	waiting []*job // the oldest first
}

// job is a query whose answer is to be completed.
type job struct {
	from   *sources
	query  []byte
	client Client
	send   func(reply []byte, rcode int) // called once, with a reply that is good during the call
}

func newRecursion(limit int) *recursion {
	r := &recursion{limit: limit, buffers: sync.Pool{New: func() any { return new([TCPLimit]byte) }}}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// take has a job done, and does not wait for it.
func (r *recursion) take(j *job) {
	r.mu.Lock()
	if r.running < r.limit {
		r.running++
		r.mu.Unlock()
		r.done.Go(func() { r.work(j) })
		return
	}
	r.waiting = append(r.waiting, j)
	var oldest *job
	if len(r.waiting) > r.limit {
		oldest, r.waiting = r.waiting[0], r.waiting[1:]
	}
	r.mu.Unlock()
	if oldest != nil {
		r.shed.Add(1)
		r.fail(oldest)
	}
}

// work does a job, and those that wait.
func (r *recursion) work(j *job) {
	for j != nil {
		r.finish(j)
		j = r.next()
	}
}

// next returns the job that has waited longest. Without one its caller is no longer counted as running.
func (r *recursion) next() (j *job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) == 0 {
		r.running--
		return nil
	}
	j, r.waiting = r.waiting[0], r.waiting[1:]
	return j
}

// finish sends the complete answer.
func (r *recursion) finish(j *job) {
	buf := r.buffers.Get().(*[TCPLimit]byte)
	defer r.buffers.Put(buf)
	n, rcode := complete(r.ctx, j.from, j.query, buf[:], j.client)
	j.send(buf[:n], rcode)
}

// fail answers a job with a server failure.
func (r *recursion) fail(j *job) {
	out := make([]byte, UDPLimit)
	var p reply
	p.begin(j.query, out, j.client) // leaves room for more: it is a query, or would have been answered at once
	j.send(out[:p.end(wire.ServFail)], wire.ServFail)
}

// close ends all jobs: those under way get a server failure.
func (r *recursion) close() {
	r.cancel()
	r.done.Wait()
}
