// Package admin is the interface for people and programs on the same machine: HTTP with JSON over a Unix socket. It only
// reads.
//
//	GET /v1/stats      counters, sockets, flow table, memory
//	GET /v1/services   what is served
//	GET /v1/endpoints  what is behind it, and how healthy
package admin

import (
	"net/netip"

	"sluice/xdp"
)

// Source is what the API shows. Its methods may be called by any goroutine.
type Source interface {
	Stats() Stats
	Services() []Service
	Endpoints() []Endpoint
}

// Stats is the answer of /v1/stats. All counts are since the start.
type Stats struct {
	Uptime     float64             `json:"uptime_seconds"`
	Generation uint64              `json:"generation"` // of services and health
	NextHops   uint64              `json:"next_hop_generation"`
	Workers    int                 `json:"workers"`
	Packets    map[string]uint64   `json:"packets"` // by reason; those that occurred
	Bytes      map[string]uint64   `json:"bytes"`
	Attached   []xdp.Attached      `json:"attached"`
	Classified []xdp.ClassifyStats `json:"classified"` // what the XDP program did
	Sockets    []xdp.SocketStats   `json:"sockets"`
	Conntrack  Conntrack           `json:"conntrack"`
	Punt       Punt                `json:"punt"`
	Memory     Memory              `json:"memory"`
	Reloads    Reloads             `json:"reloads"`
	// Unreachable are backends without a route over an attached interface, or whose next hop did not answer.
	Unreachable []netip.Addr `json:"unreachable_backends"`
}

// Conntrack is about the flow table.
type Conntrack struct {
	MaxFlows int    `json:"max_flows"`
	Live     int    `json:"live"`
	Peak     int    `json:"peak"`
	Inserted uint64 `json:"inserted"`
	Expired  uint64 `json:"expired"`
	Removed  uint64 `json:"removed"`
	Purged   uint64 `json:"purged"`  // flows whose endpoint or service address is gone or does not serve
	Clashes  uint64 `json:"clashes"` // source ports that were taken already
	Full     uint64 `json:"full"`    // flows that found no room
}

// Reloads counts what came of loading the topology again.
type Reloads struct {
	Done   uint64 `json:"done"`
	Failed uint64 `json:"failed"` // the topology from before stayed in use
}

// Punt is about packets given back to the kernel.
type Punt struct {
	Taken   uint64 `json:"taken"`
	Refused uint64 `json:"refused"`
}

// Memory is about the process.
type Memory struct {
	Resident uint64 `json:"resident_bytes"`
	Heap     uint64 `json:"heap_bytes"` // live and not yet collected objects of Go
}

// Service is one element of the answer of /v1/services.
type Service struct {
	Namespace       string       `json:"namespace"`
	Name            string       `json:"name"`
	Type            string       `json:"type"`
	ClusterIPs      []netip.Addr `json:"cluster_ips"`
	ExternalIPs     []netip.Addr `json:"external_ips"`
	LoadBalancerIPs []netip.Addr `json:"load_balancer_ips"`
	Ports           []Port       `json:"ports"`
}

// Port is a port of a Service.
type Port struct {
	Name     string `json:"name"`
	Protocol string `json:"protocol"`
	Port     uint16 `json:"port"`
	NodePort uint16 `json:"node_port,omitempty"`
	Backends int    `json:"backends"` // endpoints that have this port, whatever their state
}

// Endpoint is one element of the answer of /v1/endpoints: one port of one endpoint.
type Endpoint struct {
	Service     string         `json:"service"` // "namespace/name"
	Port        string         `json:"port"`
	Protocol    string         `json:"protocol"`
	Address     netip.AddrPort `json:"address"`
	Node        string         `json:"node,omitempty"`
	Ready       bool           `json:"ready"`
	Serving     bool           `json:"serving"`
	Terminating bool           `json:"terminating"`
	Weight      int            `json:"weight"`
	Health      string         `json:"health"`           // HealthUp, HealthDown or HealthUnchecked
	Reason      string         `json:"reason,omitempty"` // of the last failed check, kept after the recovery
}

// The values of Endpoint.Health.
const (
	HealthUp        = "up"
	HealthDown      = "down"
	HealthUnchecked = "unchecked"
)
