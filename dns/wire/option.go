package wire

import "encoding/binary"

// Options of an OPT record that are known. All others are ignored (RFC 6891 section 6.1.2).
const (
	OptionCookie    uint16 = 10 // RFC 7873
	OptionKeepalive uint16 = 11 // RFC 7828
	OptionPadding   uint16 = 12 // RFC 7830
	OptionError     uint16 = 15 // RFC 8914; in replies only
)

// Extended errors say more than a response code (RFC 8914 section 4).
const (
	NotReady         uint16 = 14
	Prohibited       uint16 = 18
	NoReachable      uint16 = 22 // no upstream has answered
	NotAuthoritative uint16 = 20
)

// OptionHead is the length of what stands in front of the data of an option: its code and the length of the data.
const OptionHead = 4

// ClientCookieLen is the length of the part of a cookie that the client has made.
const ClientCookieLen = 8

// PutOption writes the head of an option with n bytes of data into out, OptionHead bytes.
func PutOption(out []byte, code uint16, n int) {
	binary.BigEndian.PutUint16(out, code)
	binary.BigEndian.PutUint16(out[2:], uint16(n))
}

// SetOptionsLen says in an OPT record by PutOPT that n bytes of options follow it.
func SetOptionsLen(opt []byte, n int) { binary.BigEndian.PutUint16(opt[9:], uint16(n)) }

// options reads the options of an OPT record and reports whether they are in order.
func (q *Question) options(data []byte) bool {
	q.Options, q.Cookie, q.Keepalive, q.Padding = true, nil, false, false
	for len(data) > 0 {
		if len(data) < OptionHead {
			return false
		}
		code, end := binary.BigEndian.Uint16(data), OptionHead+int(binary.BigEndian.Uint16(data[2:]))
		if end > len(data) || !q.option(code, data[OptionHead:end]) {
			return false
		}
		data = data[end:]
	}
	return true
}

func (q *Question) option(code uint16, data []byte) bool {
	switch {
	case code == OptionCookie && q.Cookie == nil: // of several the first counts (RFC 7873 section 5.2)
		q.Cookie = data
		return len(data) == ClientCookieLen || 2*ClientCookieLen <= len(data) && len(data) <= 5*ClientCookieLen
	case code == OptionKeepalive:
		q.Keepalive = true
	case code == OptionPadding:
		q.Padding = true
	}
	return true
}
