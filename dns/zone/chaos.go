package zone

import (
	"cmp"
	"encoding/binary"

	"sluice/config/topology"
	"sluice/dns/wire"
)

// Chaos returns the answer to a question of class CH, by which operators find out whom they talk to; nil when there is none.
func (z *Zones) Chaos(q *wire.Question) *Answer {
	if q.Type != wire.TypeTXT {
		return nil
	}
	return z.chaos[string(q.Name())]
}

// chaosAnswers returns the answers by name (RFC 4892 section 2.1, and what BIND began): what runs here, and which one it is.
func chaosAnswers(t *topology.Topology) map[string]*Answer {
	text := t.DNS.Chaos
	if text == "" {
		return nil
	}
	version, server := chaosAnswer(text), chaosAnswer(cmp.Or(t.Gateway.Node, text))
	return map[string]*Answer{
		"\x07version\x04bind\x00": version, "\x07version\x06server\x00": version, "\x07authors\x04bind\x00": version,
		"\x08hostname\x04bind\x00": server, "\x02id\x06server\x00": server,
	}
}

// chaosAnswer packs a TXT record of class CH that must not be kept.
func chaosAnswer(text string) *Answer {
	b := binary.BigEndian
	body := b.AppendUint16(nil, wire.Pointer(wire.HeaderLen))
	body = b.AppendUint16(body, wire.TypeTXT)
	body = b.AppendUint16(body, wire.ClassCH)
	body = b.AppendUint32(body, 0)
	body = b.AppendUint16(body, uint16(1+len(text)))
	body = append(append(body, byte(len(text))), text...)
	return &Answer{Type: wire.TypeTXT, Records: 1, Body: body}
}
