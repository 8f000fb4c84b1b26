package healthz

import (
	"io"
	"net/http"
	"strings"
	"sync"
)

// Readiness says whether all that serving takes is there. The zero value requires nothing.
//
// Concurrency: all methods may be called from any goroutine.
type Readiness struct {
	mu       sync.Mutex
	required []func() []string
	stopping bool
}

// Require adds something that is needed: missing returns the names of what is not there yet, or no longer. It is called for each probe,
// by any goroutine.
func (r *Readiness) Require(missing func() []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.required = append(r.required, missing)
}

// Stop says that the server is about to end. It is not ready from now on.
func (r *Readiness) Stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopping = true
}

// Missing returns the names of all that is not there, in the order in which it was required.
func (r *Readiness) Missing() (names []string) {
	r.mu.Lock()
	required, stopping := r.required, r.stopping
	r.mu.Unlock() // what is asked below may take its time
	for _, missing := range required {
		names = append(names, missing()...)
	}
	if stopping {
		names = append(names, "stopping")
	}
	return names
}

// ServeHTTP answers as CoreDNS' /ready does: 200 and OK, or 503 and what is missing; here that is a name on each line.
func (r *Readiness) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	body := "OK"
	if missing := r.Missing(); len(missing) > 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		body = strings.Join(missing, "\n") + "\n"
	}
	_, _ = io.WriteString(w, body) // an error here is of the connection: its client does not want to know
}
