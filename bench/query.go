package bench

import (
	"errors"
	"fmt"
	"time"

	"sluice/bench/traffic"
	"sluice/xdp/lab"
)

// QueryResult is one round of one name server at one rate.
type QueryResult struct {
	Asked    uint64 // queries of the whole run
	Answered uint64 // replies to them
	Wrong    uint64 // replies whose response code is not one that the queries have coming

	Queries        uint64        // of the measured window
	Wall           time.Duration // length of the window
	MachineSeconds float64       // busy time of all processors in the window, generator included
	ProcessSeconds float64       // of which the server's processes, all threads
	SenderSeconds  float64       // of which the generator's process: what the kernel does for the server on its thread counts as its own
}

// maxLoss is the share of queries without a reply up to which a server keeps up.
const maxLoss = 0.001

// KeepsUp reports whether all queries but one in a thousand were answered, and rightly.
func (r QueryResult) KeepsUp() bool {
	return r.Asked > 0 && r.Wrong == 0 && float64(r.Answered) >= (1-maxLoss)*float64(r.Asked)
}

// Rate is queries per second in the window.
func (r QueryResult) Rate() float64 { return float64(r.Queries) / r.Wall.Seconds() }

// MachineMicros is microseconds of processor for each query, of the whole machine.
func (r QueryResult) MachineMicros() float64 { return r.perQuery(r.MachineSeconds) }

// ProcessMicros is the same of the server's processes alone. What the kernel does for a server while the sender's thread runs is not in it.
func (r QueryResult) ProcessMicros() float64 { return r.perQuery(r.ProcessSeconds) }

// TaskMicros is the same of server and generator together. Next to nothing that a server costs is left out of it, and nothing that others
// run on the machine comes in.
func (r QueryResult) TaskMicros() float64 { return r.perQuery(r.ProcessSeconds + r.SenderSeconds) }

func (r QueryResult) perQuery(seconds float64) float64 {
	if r.Queries == 0 {
		return 0
	}
	return seconds / float64(r.Queries) * 1e6
}

// asker puts questions to one server that is on a bed.
type asker struct {
	names   *Names
	replay  *traffic.Replay
	replies *traffic.Attachment
	process *lab.Process // nil: none
	limit   bool
	stop    func() error
}

// settle is how long what is under way may take to arrive, or to be lost.
const settle = 100 * time.Millisecond

// newAsker puts a server on a bed, with the generator and what counts the replies.
func newAsker(b *Bed, n *Names, s NameServer) (_ *asker, err error) {
	a := &asker{names: n, limit: s.limit}
	frames, err := n.datagrams(traffic.Link{Src: b.genIf.MAC, Dst: b.Front.MAC})
	if err != nil {
		return nil, err
	}
	if a.process, a.stop, err = s.start(b, n); err != nil {
		return nil, err
	}
	if a.replies, err = traffic.NewReplyCounter(b.gen, b.genIf.Index, dnsPort); err != nil {
		return nil, errors.Join(err, a.close())
	}
	if a.replay, err = traffic.NewReplay(b.gen, b.genIf.Index, frames, generatorCPU()); err != nil {
		return nil, errors.Join(err, a.close())
	}
	return a, nil
}

func (a *asker) close() error {
	errs := []error{a.stop()}
	if a.replies != nil {
		errs = append(errs, a.replies.Close())
	}
	if a.replay != nil {
		errs = append(errs, a.replay.Close())
	}
	return errors.Join(errs...)
}

// measure asks at a rate, at first without looking, then for window and a little longer at both ends.
func (a *asker) measure(pace traffic.Pace, window time.Duration) (r QueryResult, err error) {
	if err := a.replay.Run(pace, window/4); err != nil {
		return r, err
	}
	time.Sleep(settle)
	sent, replies, err := a.counts()
	if err != nil {
		return r, err
	}
	done := make(chan error, 1)
	go func() { done <- a.replay.Run(pace, window+window/4) }()
	time.Sleep(window / 8)
	r, err = a.sample(window)
	if err = errors.Join(err, <-done); err != nil {
		return r, err
	}
	time.Sleep(settle)
	sentAfter, repliesAfter, err := a.counts()
	r.Asked = sentAfter - sent
	want := a.names.rcodes(sent, sentAfter)
	for rcode := range repliesAfter {
		got := repliesAfter[rcode] - replies[rcode]
		r.Answered += got
		if got > want[rcode] && !a.limit {
			r.Wrong += got - want[rcode]
		}
	}
	return r, err
}

func (a *asker) counts() (sent uint64, replies [traffic.RCodes]uint64, err error) {
	replies, err = a.replies.Replies()
	return a.replay.Sent(), replies, err
}

// usage is what has been used up to a moment.
type usage struct {
	at            time.Time
	queries       uint64
	idle, process float64 // seconds
	sender        float64 // seconds
	processors    int
}

func (a *asker) usage() (u usage, err error) {
	if a.process != nil {
		if u.process, err = processSeconds(a.process.PID()); err != nil {
			return u, err
		}
	}
	if u.sender, err = ownSeconds(); err != nil {
		return u, err
	}
	u.idle, u.processors, err = idleSeconds()
	u.at, u.queries = time.Now(), a.replay.Sent()
	return u, err
}

// sample takes the difference of usage over a window.
func (a *asker) sample(window time.Duration) (QueryResult, error) {
	begin, err := a.usage()
	if err != nil {
		return QueryResult{}, err
	}
	time.Sleep(window)
	end, err := a.usage()
	wall := end.at.Sub(begin.at)
	return QueryResult{Queries: end.queries - begin.queries, Wall: wall, ProcessSeconds: end.process - begin.process,
		SenderSeconds: end.sender - begin.sender, MachineSeconds: wall.Seconds()*float64(end.processors) - (end.idle - begin.idle)}, err
}

// AskOne measures one server once, on a bed of its own.
func AskOne(s NameServer, n *Names, pace traffic.Pace, window time.Duration) (r QueryResult, err error) {
	err = onBed(s, n, func(a *asker) (err error) { r, err = a.measure(pace, window); return err })
	return r, err
}

// onBed calls f while a server is on a bed.
func onBed(s NameServer, n *Names, f func(*asker) error) error {
	b, err := NewBed(1)
	if err != nil {
		return err
	}
	a, err := newAsker(b, n, s)
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w", s.Name, err), b.Close())
	}
	return errors.Join(f(a), a.close(), b.Close())
}
