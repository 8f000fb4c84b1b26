package packet_test

import (
	"hash/crc32"
	"testing"

	"sluice/xdp/packet"
)

// slowCRC is CRC32c bit by bit, as RFC 9260 appendix A defines it: reflected, polynomial 0x1edc6f41, all ones before and after.
func slowCRC(b []byte) uint32 {
	crc := ^uint32(0)
	for _, c := range b {
		crc ^= uint32(c)
		for range 8 {
			bit := crc & 1
			crc >>= 1
			if bit == 1 {
				crc ^= 0x82f63b78
			}
		}
	}
	return ^crc
}

// TestSCTPChecksum holds the checksum to the definition, on packets of every length.
func TestSCTPChecksum(t *testing.T) {
	if got := slowCRC([]byte("123456789")); got != 0xe3069283 || crc32.Checksum([]byte("123456789"), crc32.MakeTable(crc32.Castagnoli)) != got {
		t.Fatalf("CRC32c of the check string is %#x, want 0xe3069283", got)
	}
	for n := range 300 {
		payload := make([]byte, n)
		for i := range payload {
			payload[i] = byte(i * 7)
		}
		frame := build(packet.Spec{Tuple: tuple4(packet.ProtoSCTP), Seq: 0x0a0b0c0d, Payload: payload})
		in := parse(t, frame)
		if !in.HasPorts || in.Tuple.SrcPort != tuple4(packet.ProtoSCTP).SrcPort {
			t.Fatalf("%d bytes: %+v", n, in)
		}
		zeroed := append([]byte(nil), frame[in.L4:in.End]...)
		clear(zeroed[8:12])
		want := slowCRC(zeroed)
		at := frame[in.L4+8:]
		if got := uint32(at[0]) | uint32(at[1])<<8 | uint32(at[2])<<16 | uint32(at[3])<<24; got != want {
			t.Fatalf("%d bytes: checksum %#x, want %#x with the least significant byte first", n, got, want)
		}
		if !packet.VerifyL4(frame, &in) || packet.LacksSCTPSum(frame, &in) {
			t.Errorf("%d bytes: its own checksum does not pass", n)
		}
		frame[in.End-1] ^= 1
		if packet.VerifyL4(frame, &in) {
			t.Errorf("%d bytes: a changed bit passes", n)
		}
	}
}

func TestSCTPCutShort(t *testing.T) {
	frame := build(packet.Spec{Tuple: tuple4(packet.ProtoSCTP)})
	var in packet.Info
	for n := range packet.SCTPLen {
		b := append([]byte(nil), frame...)
		b[16], b[17] = 0, byte(20+n)
		if s := packet.Parse(b, &in); s != packet.Malformed {
			t.Errorf("%d bytes of the common header: %v", n, s)
		}
	}
}
