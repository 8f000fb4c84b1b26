// Package engine is the appliance: it takes packets from the network through the services and back out, and runs everything
// that this needs.
//
// The packet path is Pipeline, which knows no sockets: workers run one each over an xdp.Port, and Trace runs one in memory.
// Around it are the parts in the packages below: next hops (fib), the way back to the kernel (punt), snapshots of what is
// served (control), health, metrics and the admin socket. Run puts them together.
//
//	pipeline.go, flow.go, icmp.go, send.go, pending.go  the way of a packet
//	judge.go, reset.go, stale.go, sweeper.go            flows whose endpoint or service has left
//	worker.go, worker_cpu.go                            threads, polling, sleeping
//	run.go, run_preflight.go                            starting and stopping
//	reload.go                                           another topology while running
//	run_status.go, run_report.go                        what is shown and logged
//	trace.go, explain.go                                one packet, offline
package engine
