package xdp

import (
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// counters are what a socket counts itself. The worker alone adds, once a batch; anybody reads.
type counters struct {
	rxPackets, rxBytes, txPackets, txBytes, completed, txFull, fillEmpty, kicks, wakeups, kickErrs atomic.Uint64
}

// fill copies the counters into st.
func (c *counters) fill(st *SocketStats) {
	st.RxPackets, st.RxBytes = c.rxPackets.Load(), c.rxBytes.Load()
	st.TxPackets, st.TxBytes = c.txPackets.Load(), c.txBytes.Load()
	st.Completed, st.TxFull = c.completed.Load(), c.txFull.Load()
	st.FillEmpty, st.Kicks = c.fillEmpty.Load(), c.kicks.Load()
	st.Wakeups, st.KickErrs = c.wakeups.Load(), c.kickErrs.Load()
}

// kernelStats adds what the kernel has counted for socket fd. Its counters have 64 bits.
func kernelStats(fd int, st *SocketStats) {
	var k unix.XDPStatistics
	if getsockopt(fd, unix.XDP_STATISTICS, &k) != nil {
		return // the socket is unbound, since its interface is gone: what we counted ourselves remains
	}
	st.RxDropped, st.RxInvalid, st.TxInvalid = k.Rx_dropped, k.Rx_invalid_descs, k.Tx_invalid_descs
	st.RxRingFull, st.RxFillRingEmpty, st.TxRingEmpty = k.Rx_ring_full, k.Rx_fill_ring_empty_descs, k.Tx_ring_empty_descs
}

// zeroCopy reports whether the kernel granted zero-copy to socket fd.
func zeroCopy(fd int) bool {
	var options uint32
	return getsockopt(fd, unix.XDP_OPTIONS, &options) == nil && options&unix.XDP_OPTIONS_ZEROCOPY != 0
}
