package conntrack_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/conntrack"
	"sluice/xdp/packet"
)

// A script is a connection as the table sees it, one segment a line:
//
//	[+SECONDS] DIRECTION FLAGS SEQ[:LEN] [ack N] [win N] [scale N] -> pass|drop STATE
//
// DIRECTION is > from the client and < from the backend; FLAGS as tcpdump writes them: S, F, R, P and . for ACK. Client and
// backend begin at 1000 and 5000 unless the script says otherwise. "reopen" lines are what the engine does with the
// first packet of a new connection: they fail unless the flow is over, and put a new flow in its place. "gone" lines
// check that the flow has expired.
type script struct {
	name    string
	liberal bool
	uncheck bool
	lines   string
}

// established is the handshake that most scripts begin with.
const established = `
	> S 1000 win 64000 -> pass syn_sent
	< S. 5000 ack 1001 win 65000 -> pass syn_recv
	> . 1001 ack 5001 win 64000 -> pass established`

var windowScripts = []script{
	{name: "handshake and data", lines: established + `
	> P. 1001:100 ack 5001 win 64000 -> pass established
	< . 5001 ack 1101 win 65000 -> pass established
	< P. 5001:1400 ack 1101 win 65000 -> pass established
	< P. 6401:1400 ack 1101 win 65000 -> pass established
	> . 1101 ack 7801 win 64000 -> pass established`},
	{name: "upper bounds", lines: established + `
	> P. 66001:10 ack 5001 win 64000 -> pass established
	> P. 66003:10 ack 5001 win 64000 -> drop established
	> P. 1001:10 ack 5002 win 64000 -> drop established
	< P. 69001:10 ack 1001 win 65000 -> pass established
	< P. 69003:10 ack 1001 win 65000 -> drop established
	< P. 5001:10 ack 66012 win 65000 -> drop established`},
	{name: "lower bounds", lines: established + `
	> P. 1001:64000 ack 5001 win 64000 -> pass established
	< . 5001 ack 65001 win 65000 -> pass established
	> P. 65001:1000 ack 5001 win 64000 -> pass established
	> P. 1000:1 ack 5001 win 64000 -> pass established
	> . 1001 ack 5001 win 64000 -> pass established
	> . 1000 ack 5001 win 64000 -> drop established
	> P. 4294000000:100 ack 5001 win 64000 -> drop established`},
	{name: "an old acknowledgement", lines: established + `
	> P. 1001:64000 ack 5001 win 64000 -> pass established
	< . 5001 ack 65001 win 65000 -> pass established
	> P. 65001:64000 ack 5001 win 64000 -> pass established
	< . 5001 ack 129001 win 65000 -> pass established
	> P. 129001:64000 ack 5001 win 64000 -> pass established
	< . 5001 ack 65001 win 65000 -> pass established
	< P. 5001:10 ack 61001 win 65000 -> pass established
	< P. 5001:10 ack 60000 win 65000 -> drop established`},
	{name: "out of window leaves time alone", lines: established + `
	+7000 > . 900000 ack 5001 win 64000 -> drop established
	+100 < . 900000 ack 1001 win 65000 -> drop established
	+101 gone`},
	{name: "liberal", liberal: true, lines: established + `
	+7000 > . 900000 ack 5001 win 64000 -> pass established
	< R 77 -> pass established
	< . 900000 ack 1001 win 65000 -> pass established
	+201 gone`},
	{name: "unchecked", uncheck: true, lines: established + `
	> . 900000 ack 5001 win 64000 -> pass established
	< R 77 -> pass closed`},
	{name: "window scaling", lines: `
	> S 1000 win 64000 scale 7 -> pass syn_sent
	< S. 5000 ack 1001 win 65000 scale 3 -> pass syn_recv
	> . 1001 ack 5001 win 1000 -> pass established
	< P. 69001:10 ack 1001 win 65000 -> pass established
	< P. 133001:10 ack 1001 win 65000 -> pass established
	< P. 133003:10 ack 1001 win 65000 -> drop established
	> P. 521001:10 ack 5001 win 1000 -> pass established
	> P. 521003:10 ack 5001 win 1000 -> drop established`},
	{name: "scaling that one side does not offer", lines: `
	> S 1000 win 64000 scale 7 -> pass syn_sent
	< S. 5000 ack 1001 win 65000 -> pass syn_recv
	> . 1001 ack 5001 win 1000 -> pass established
	< P. 69001:10 ack 1001 win 65000 -> pass established
	< P. 69003:10 ack 1001 win 65000 -> drop established
	> P. 66003:10 ack 5001 win 1000 -> drop established`},
	{name: "a client that gives up options", lines: `
	> S 1000 win 64000 scale 7 -> pass syn_sent
	> S 1000 win 64000 -> pass syn_sent
	< S. 5000 ack 1001 win 65000 scale 3 -> pass syn_recv
	> . 1001 ack 5001 win 1000 -> pass established
	< P. 133001:10 ack 1001 win 65000 -> pass established`},
	{name: "a repeated syn ack with a larger window", lines: `
	> S 1000 win 64000 -> pass syn_sent
	< S. 5000 ack 1001 win 0 -> pass syn_recv
	< S. 5000 ack 1001 win 65000 -> pass syn_recv
	> P. 66001:10 ack 5001 win 64000 -> pass established`},
	{name: "sequence numbers wrap", lines: `
	> S 4294967290 win 64000 -> pass syn_sent
	< S. 4294967295 ack 4294967291 win 65000 -> pass syn_recv
	> . 4294967291 ack 0 win 64000 -> pass established
	> P. 4294967291:100 ack 0 win 64000 -> pass established
	< . 0 ack 95 win 65000 -> pass established
	> P. 95:100 ack 0 win 64000 -> pass established
	> P. 66000:1 ack 0 win 64000 -> drop established
	< R 0 -> pass closed`},
	{name: "zero window, probe, keep-alive", lines: established + `
	> P. 1001:65000 ack 5001 win 64000 -> pass established
	< . 5001 ack 66001 win 0 -> pass established
	> . 66001:1 ack 5001 win 64000 -> pass established
	< . 5001 ack 66001 win 0 -> pass established
	> . 66000 ack 5001 win 64000 -> pass established
	+7199 > . 66000 ack 5001 win 64000 -> pass established
	< . 5001 ack 66002 win 65000 -> pass established
	> P. 66002:65000 ack 5001 win 64000 -> pass established
	+7199 < . 5000 ack 66002 win 65000 -> pass established`},
	{name: "a zero window from the start", lines: `
	> S 1000 win 0 -> pass syn_sent
	< S. 5000 ack 1001 win 0 -> pass syn_recv
	> . 1001 ack 5001 win 0 -> pass established
	> . 1001:1 ack 5001 win 0 -> pass established
	< . 5001 ack 1001 win 0 -> pass established
	> . 1000 ack 5001 win 100 -> pass established
	< P. 5001:100 ack 1001 win 0 -> pass established`},
	{name: "selective acknowledgement", lines: established + `
	> P. 1001:1000 ack 5001 win 64000 -> pass established
	> P. 2001:1000 ack 5001 win 64000 -> pass established
	> P. 3001:1000 ack 5001 win 64000 -> pass established
	< . 5001 ack 1001 win 65000 -> pass established
	< . 5001 ack 1001 win 65000 -> pass established
	> P. 1001:1000 ack 5001 win 64000 -> pass established
	< . 5001 ack 4001 win 65000 -> pass established`},
	{name: "simultaneous open", lines: `
	> S 1000 win 64000 scale 2 -> pass syn_sent
	< S 5000 win 65000 scale 2 -> pass syn_recv
	> S. 1000 ack 5001 win 64000 scale 2 -> pass syn_recv
	< S. 5000 ack 1001 win 65000 scale 2 -> pass syn_recv
	> . 1001 ack 5001 win 64000 -> pass established
	< P. 261001:10 ack 1001 win 65000 -> pass established
	< P. 261003:10 ack 1001 win 65000 -> drop established`},
	{name: "data in the SYN, acknowledged", lines: `
	> S 1000:500 win 64000 -> pass syn_sent
	< S. 5000 ack 1501 win 65000 -> pass syn_recv
	< P. 5001:1400 ack 1501 win 65000 -> pass syn_recv
	> . 1501 ack 6401 win 64000 -> pass established`},
	{name: "data in the SYN, not acknowledged", lines: `
	> S 1000:500 win 64000 -> pass syn_sent
	< S. 5000 ack 1001 win 65000 -> pass syn_recv
	> P. 1001:500 ack 5001 win 64000 -> pass established`},
	{name: "data in the SYN, given up", lines: `
	> S 1000:500 win 64000 -> pass syn_sent
	> S 1000 win 64000 -> pass syn_sent
	< S. 5000 ack 1001 win 65000 -> pass syn_recv
	> . 1001 ack 5001 win 64000 -> pass established
	< S. 5000 ack 1001 win 65000 -> pass established
	> P. 1001:500 ack 5001 win 64000 -> pass established`},
	// As netfilter's conntrack_ack_loss_stall: acknowledgements are lost behind the table, and what is sent again is a window
	// old. It must get through, or the connection stalls.
	{name: "ack loss stall", lines: established + `
	> P. 1001:64000 ack 5001 win 64000 -> pass established
	> P. 65001:1000 ack 5001 win 64000 -> pass established
	< . 5001 ack 66001 win 65000 -> pass established
	+1 > P. 1001:1000 ack 5001 win 64000 -> pass established
	+2 > P. 1001:1000 ack 5001 win 64000 -> pass established
	< . 5001 ack 66001 win 65000 -> pass established
	> P. 66001:1000 ack 5001 win 64000 -> pass established`},
	// As conntrack_inexact_rst and conntrack_rst_invalid.
	{name: "inexact rst in established", lines: established + `
	> P. 1001:1000 ack 5001 win 64000 -> pass established
	< . 5001 ack 2001 win 65000 -> pass established
	> R 2002 -> pass established
	< R. 5002 ack 2001 -> pass established
	> R 2000 -> drop established
	< R 4294900000 -> drop established
	> R 67003 -> drop established
	> R 2001 -> pass closed`},
	{name: "inexact rst after fin", lines: established + `
	< F. 5001 ack 1001 win 65000 -> pass half_closed
	> . 1001 ack 5002 win 64000 -> pass half_closed
	> R 1000 -> drop half_closed
	> R 1501 -> pass half_closed
	> R 66001 -> pass half_closed
	> P. 1001:1000 ack 5002 win 64000 -> pass half_closed
	> P. 2001:1000 ack 5002 win 64000 -> pass half_closed
	> R 3002 -> pass half_closed
	> R 2001 -> pass closed`},
	{name: "rst with the number of the fin", lines: established + `
	> F. 1001 ack 5001 win 64000 -> pass half_closed
	< . 5001 ack 1002 win 65000 -> pass half_closed
	> R 1001 -> pass closed`},
	{name: "rst behind data that is not acknowledged yet", lines: established + `
	< P. 5001:19 ack 1001 win 65000 -> pass established
	< R. 5020 ack 1001 -> pass closed`},
	{name: "rst for an old acknowledgement number", lines: established + `
	< P. 5001:19 ack 1001 win 65000 -> pass established
	< R. 5001 ack 1001 -> pass closed`},
	{name: "rst flood keeps nothing alive", lines: established + `
	+7000 > R 2000 -> pass established
	+100 < R 6000 -> pass established
	+101 gone`},
	{name: "rst, then data", lines: established + `
	< R 5001 -> pass closed
	+5 > P. 1001:100 ack 5001 win 64000 -> pass closed
	> R 1001 -> pass closed
	+6 gone`},
	{name: "refused", lines: `
	> S 1000 win 64000 -> pass syn_sent
	< R. 0 ack 1001 -> pass closed
	reopen
	> S 99 win 64000 -> pass syn_sent`},
	{name: "forged refusal", lines: `
	> S 1000 win 64000 -> pass syn_sent
	< R. 0 ack 77777 -> pass syn_sent
	< R 5000 -> pass syn_sent
	< S. 5000 ack 1001 win 65000 -> pass syn_recv`},
	{name: "refused after the answer was lost", lines: `
	> S 1000 win 64000 -> pass syn_sent
	< S. 5000 ack 1001 win 65000 -> pass syn_recv
	+1 > S 1000 win 64000 -> pass syn_recv
	< R. 0 ack 1001 -> pass closed`},
	{name: "client gives up", lines: `
	> S 1000 win 64000 -> pass syn_sent
	> R 1001 -> pass closed`},
	{name: "rst in the handshake need not be exact", lines: `
	> S 1000 win 64000 -> pass syn_sent
	< S. 5000 ack 1001 win 65000 -> pass syn_recv
	> R 1001000 -> pass syn_recv
	> R 1100 -> pass closed`},
	// As conntrack_syn_challenge_ack: the backend still has a connection that the client and the table do not know.
	{name: "challenge ack for a new flow", lines: `
	> S 1000 win 64000 -> pass syn_sent
	< . 145824453 ack 643160523 win 240 -> pass syn_sent
	> R 643160523 -> pass syn_sent
	+1 > S 1000 win 64000 -> pass syn_sent
	< S. 5000 ack 1001 win 250 -> pass syn_recv
	> . 1001 ack 5001 win 256 -> pass established`},
	// As conntrack_synack_old: an answer to an older SYN.
	{name: "old syn ack", lines: `
	> S 1000 win 64000 -> pass syn_sent
	< S. 145824453 ack 643160523 win 240 -> pass syn_sent
	> R 643160523 -> pass syn_sent
	+1 > S 1000 win 64000 -> pass syn_sent
	< S. 5000 ack 1001 win 240 -> pass syn_recv
	> . 1001 ack 5001 win 64000 -> pass established`},
	{name: "old syn ack behind the new one", lines: `
	> S 1000 win 64000 -> pass syn_sent
	< S. 5000 ack 1001 win 240 -> pass syn_recv
	< S. 145824453 ack 643160523 win 240 -> pass syn_recv
	> R 643160523 -> pass syn_recv
	> . 1001 ack 5001 win 64000 -> pass established`},
	// As conntrack_synack_reuse.
	{name: "client has forgotten: challenge, exact rst, new connection", lines: established + `
	> S 700000000 win 64000 -> pass established
	< . 5001 ack 1001 win 65000 -> pass established
	> R 1001 -> pass closed
	reopen
	> S 700000000 win 64000 -> pass syn_sent
	< S. 9000 ack 700000001 win 65000 -> pass syn_recv
	> . 700000001 ack 9001 win 64000 -> pass established
	> . 1001 ack 5001 win 64000 -> drop established`},
	{name: "challenge ack below what was sent", lines: established + `
	> P. 1001:1000 ack 5001 win 64000 -> pass established
	> S 700000000 win 64000 -> pass established
	< . 5001 ack 1001 win 65000 -> pass established
	> R 1001 -> pass closed`},
	{name: "both have forgotten", lines: established + `
	> S 700000000 win 64000 scale 1 -> pass established
	< S. 900000000 ack 700000001 win 65000 scale 1 -> pass syn_recv
	> . 700000001 ack 900000001 win 64000 -> pass established
	< P. 900000001:100 ack 700000001 win 65000 -> pass established
	> P. 1001:10 ack 5001 win 64000 -> drop established
	< P. 900128001:10 ack 700000001 win 65000 -> pass established
	< P. 900128003:10 ack 700000001 win 65000 -> drop established`},
	{name: "both have forgotten, half closed", lines: established + `
	> F. 1001 ack 5001 win 64000 -> pass half_closed
	> S 700000000 win 64000 -> pass half_closed
	< S. 900000000 ack 700000001 win 65000 -> pass syn_recv
	> . 700000001 ack 900000001 win 64000 -> pass established
	< F. 900000001 ack 700000001 win 65000 -> pass half_closed`},
	{name: "the backend has forgotten and refuses", lines: established + `
	> S 700000000 win 64000 -> pass established
	< R. 0 ack 700000001 -> pass established
	< P. 5001:100 ack 1001 win 65000 -> pass established`},
	{name: "syn and syn ack once more", lines: established + `
	> P. 1001:64000 ack 5001 win 64000 -> pass established
	< . 5001 ack 65001 win 65000 -> pass established
	> S 1000 win 64000 -> pass established
	< S. 5000 ack 1001 win 65000 -> pass established
	> P. 65001:1000 ack 5001 win 64000 -> pass established`},
	{name: "syn flood keeps nothing alive", lines: established + `
	+7000 > S 77 win 64000 -> pass established
	+100 < S. 99 ack 99999 win 64000 -> pass established
	+101 gone`},
	{name: "a client that tries anew with another number", lines: `
	> S 1000 win 64000 -> pass syn_sent
	> S 800000000 win 64000 -> pass syn_sent
	< S. 5000 ack 800000001 win 65000 -> pass syn_recv
	> . 800000001 ack 5001 win 64000 -> pass established
	> . 1001 ack 5001 win 64000 -> drop established`},
	{name: "a duplicate of an older syn", lines: `
	> S 1000 win 64000 -> pass syn_sent
	> S 800000000 win 64000 -> pass syn_sent
	< S. 5000 ack 1001 win 65000 -> pass syn_recv
	> . 1001 ack 5001 win 64000 -> pass established`},
	{name: "three syns are too many to judge by", lines: `
	> S 1000 win 64000 -> pass syn_sent
	> S 800000000 win 64000 -> pass syn_sent
	> S 900000000 win 64000 -> pass syn_sent
	< S. 5000 ack 800000001 win 65000 -> pass syn_recv
	> . 800000001 ack 5001 win 64000 -> pass established`},
	{name: "syn cookies: two answers that differ", lines: `
	> S 1000 win 64000 -> pass syn_sent
	< S. 5000 ack 1001 win 65000 -> pass syn_recv
	+60 > S 1000 win 64000 -> pass syn_recv
	< S. 60005000 ack 1001 win 65000 -> pass syn_recv
	> . 1001 ack 5001 win 64000 -> pass established
	< P. 5001:1000 ack 1001 win 65000 -> pass established`},
	{name: "syn cookies: the client takes the second answer", lines: `
	> S 1000 win 64000 -> pass syn_sent
	< S. 5000 ack 1001 win 65000 -> pass syn_recv
	< S. 60005000 ack 1001 win 65000 -> pass syn_recv
	> . 1001 ack 60005001 win 64000 -> pass established
	< P. 60005001:1000 ack 1001 win 65000 -> pass established`},
	{name: "both fins", lines: established + `
	> F. 1001 ack 5001 win 64000 -> pass half_closed
	< . 5001 ack 1002 win 65000 -> pass half_closed
	< F. 5001 ack 1002 win 65000 -> pass time_wait
	> . 1002 ack 5002 win 64000 -> pass time_wait
	reopen
	> S 2000 win 64000 -> pass syn_sent`},
	{name: "fin out of the window", lines: established + `
	> F. 900000 ack 5001 win 64000 -> drop established
	< F. 900000 ack 1001 win 65000 -> drop established`},
	{name: "fin flood keeps nothing alive", lines: established + `
	> F. 1001 ack 5001 win 64000 -> pass half_closed
	+3500 > F. 1001 ack 5001 win 64000 -> pass half_closed
	+101 gone`},
	{name: "picked up in the middle", lines: `
	> . 77 ack 99 win 10 -> pass syn_sent
	< P. 123456:1000 ack 654321 win 10 -> pass syn_sent
	> . 4000000000 ack 3 win 10 -> pass syn_sent`},
}

func TestWindowScripts(t *testing.T) {
	for _, s := range windowScripts {
		t.Run(s.name, func(t *testing.T) { run(t, s) })
	}
}

// run plays a script.
func run(t *testing.T, s script) {
	o := options(10)
	o.Liberal = s.liberal
	tab, err := conntrack.New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	h := tab.Register()
	now := second
	h.Enter(now)
	f := mustInsert(t, h, packet.ProtoTCP, 1)
	if s.uncheck {
		f.Uncheck()
	}
	for n, line := range strings.Split(strings.TrimSpace(s.lines), "\n") {
		words := strings.Fields(line)
		if wait, ok := strings.CutPrefix(words[0], "+"); ok {
			h.Leave()
			now += number(t, wait) * second
			h.Enter(now)
			words = words[1:]
		}
		key, _ := pair(packet.ProtoTCP, 1)
		_, _, alive := h.Lookup(&key)
		if alive == (words[0] == "gone") {
			t.Fatalf("line %d: %s: the flow is there: %v", n+1, line, alive)
		}
		switch words[0] {
		case "gone":
		case "reopen":
			if !f.Over() {
				t.Fatalf("line %d: the flow is not over: %v", n+1, f.State())
			}
			h.Remove(f)
			f = mustInsert(t, h, packet.ProtoTCP, 1)
		default:
			play(t, h, f, fmt.Sprintf("line %d: %s", n+1, strings.TrimSpace(line)), words)
		}
	}
	h.Leave()
}

// play takes one segment through the table and compares what comes of it.
func play(t *testing.T, h *conntrack.Handle, f *conntrack.Flow, line string, words []string) {
	t.Helper()
	d, seg := parseSegment(t, words)
	before, _ := f.Counters(d)
	verdict := "drop"
	if h.Segment(f, d, &seg, 60) {
		verdict = "pass"
	}
	want := words[len(words)-2:]
	if verdict != want[0] || f.State().String() != want[1] {
		t.Fatalf("%s\n\tgot %s %s", line, verdict, f.State())
	}
	if after, _ := f.Counters(d); (after == before+1) != (verdict == "pass") {
		t.Fatalf("%s\n\tcounted %d packets after %d", line, after, before)
	}
}

func parseSegment(t *testing.T, words []string) (conntrack.Direction, packet.Segment) {
	t.Helper()
	d := map[string]conntrack.Direction{">": fwd, "<": rep}[words[0]]
	var s packet.Segment
	for _, c := range words[1] {
		flag, ok := map[rune]uint8{'S': syn, 'F': fin, 'R': rst, 'P': psh, '.': ack}[c]
		if !ok {
			t.Fatalf("flag %c?", c)
		}
		s.Flags |= flag
		if flag == syn || flag == fin {
			s.Len++
		}
	}
	seq, length, carries := strings.Cut(words[2], ":")
	s.Seq = uint32(number(t, seq))
	if carries {
		s.Len += uint32(number(t, length))
	}
	for i := 3; words[i] != "->"; i += 2 {
		v := number(t, words[i+1])
		switch words[i] {
		case "ack":
			s.Ack = uint32(v)
		case "win":
			s.Window = uint16(v)
		case "scale":
			s.Scales, s.WScale = true, uint8(v)
		default:
			t.Fatalf("%s?", words[i])
		}
	}
	return d, s
}

func number(t *testing.T, s string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestNewFlowHasNoWindow: the memory of a flow is used again without what was known of the old one.
func TestNewFlowHasNoWindow(t *testing.T) {
	h := open(t, 10).Register()
	h.Enter(second)
	for round := range 200 {
		f := mustInsert(t, h, packet.ProtoTCP, round)
		if f.Unchecked() {
			t.Fatal("a new flow is unchecked")
		}
		stale := packet.Segment{Seq: 1, Len: 1, Ack: 0x66666667, Flags: syn | ack, Window: 10}
		for _, line := range strings.Split(strings.TrimSpace(established), "\n") {
			d, seg := parseSegment(t, strings.Fields(line))
			seg.Seq += uint32(round) << 24
			seg.Ack += uint32(round) << 24
			if !h.Segment(f, d, &seg, 60) {
				t.Fatalf("round %d: %s: dropped", round, line)
			}
		}
		if h.Segment(f, rep, &stale, 60); f.State() != conntrack.Established {
			t.Fatalf("round %d: an answer to the SYN of an older flow: %v", round, f.State())
		}
		h.Segment(f, fwd, &packet.Segment{Seq: 0x66666666, Len: 1, Flags: syn, Window: 10}, 60)
		if f.State() != conntrack.Established {
			t.Fatalf("round %d: %v", round, f.State())
		}
		f.Uncheck()
		h.Remove(f)
		h.Leave()
		h.Enter(second + int64(round)*int64(time.Millisecond))
	}
}

func TestSegmentDoesNotAllocate(t *testing.T) {
	h := open(t, 10).Register()
	h.Enter(second)
	f := mustInsert(t, h, packet.ProtoTCP, 1)
	open := packet.Segment{Seq: 1, Len: 1, Flags: syn, Window: 1000}
	answer := packet.Segment{Seq: 1, Len: 1, Ack: 2, Flags: syn | ack, Window: 1000}
	data := packet.Segment{Seq: 2, Len: 10, Ack: 2, Flags: ack, Window: 1000}
	far := packet.Segment{Seq: 1 << 30, Len: 10, Ack: 2, Flags: ack, Window: 1000}
	chunk := packet.Chunk{Type: packet.SCTPInit}
	g := mustInsert(t, h, packet.ProtoSCTP, 2)
	if n := testing.AllocsPerRun(100, func() {
		h.Segment(f, fwd, &open, 60)
		h.Segment(f, rep, &answer, 60)
		h.Segment(f, fwd, &data, 60)
		h.Segment(f, fwd, &far, 60)
		h.Chunk(g, fwd, &chunk, 60)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzSegment: whatever segments come, in strict and in liberal tables, one that is out of the window changes nothing, time
// only goes on for what the table is to believe, and nothing leads out of Closed.
func FuzzSegment(f *testing.F) {
	f.Add(true, []byte("\x02\x00\x00\x92\x01\x00\x10\x01\x01\x11\x02\x02\x84\x10\x10"))
	f.Add(false, []byte("\x02\x00\x00\x92\x01\x00\x10\x01\x01\x02\x40\x00\x92\x02\x41\x10\xf0\xf0"))
	strict := open(f, 10)
	o := options(10)
	o.Liberal = true
	liberal, err := conntrack.New(o)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { liberal.Close() })
	f.Fuzz(func(t *testing.T, lax bool, in []byte) {
		tab := strict
		if lax {
			tab = liberal
		}
		h := tab.Register()
		defer h.Close()
		h.Enter(second)
		flow := mustInsert(t, h, packet.ProtoTCP, 1)
		defer func() { h.Remove(flow); h.Leave() }()
		for now := 2 * second; len(in) >= 3; in, now = in[3:], now+second {
			h.Leave()
			h.Enter(now)
			s := packet.Segment{Flags: in[0] & 0x1f, Seq: spread(in[1]), Ack: spread(in[2]), Window: uint16(in[2]) << 6,
				Len:    uint32(in[0]>>5&3) * 700,
				Scales: in[1]&1 != 0, WScale: in[2] & 15 % 15}
			d := conntrack.Direction(in[0] >> 7)
			state, seen := flow.State(), flow.Seen()
			passed := h.Segment(flow, d, &s, 60)
			changed := flow.State() != state || flow.Seen() != seen
			if !passed && (changed || lax) || flow.State() > conntrack.Closed || state == conntrack.Closed && changed {
				t.Fatalf("%+v: passed %v, from %v to %v", s, passed, state, flow.State())
			}
			if s.Flags&rst != 0 && flow.State() == state && changed {
				t.Fatalf("%+v: RST prolongs %v", s, state)
			}
		}
	})
}

// spread makes a sequence number of a byte: most near each other, some far away.
func spread(b byte) uint32 { return uint32(b&31) + uint32(b>>5)<<29 }
