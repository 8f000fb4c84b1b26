// Package topology is the resolved model of what a gateway serves, whatever source it came from: services, endpoints,
// nodes and the gateway's own settings, validated and with every default and allocated value filled in.
//
// It knows neither TOML nor packets nor sockets. Values are immutable once Resolve has returned them: every package
// that holds a *Topology only reads it, so that one value can be shared by all goroutines.
package topology

import (
	"net/netip"
	"time"
)

// Topology is one complete, resolved generation of the cluster as this gateway sees it.
type Topology struct {
	Gateway    Gateway
	Cluster    Cluster
	Conntrack  Conntrack
	DNS        DNS
	Nodes      []Node
	Namespaces []Namespace
	Services   []Service // sorted by namespace, then name
}

// Gateway holds the settings of the node this process runs on.
type Gateway struct {
	Node              string   // name of the Node this machine is
	Interfaces        []string // network interfaces to attach to; may be empty for the offline commands
	Driver            string   // "afxdp" or "asavie"
	XDPMode           string   // "auto", "native" or "generic"
	Queues            int      // receive queues to serve; 0 means all
	Checksum          string   // "auto", "incremental" or "full"
	PodCIDRs          []netip.Prefix
	SNATAddresses     []netip.Addr // resolved: at most one per family, IPv4 first
	SNATPorts         PortRange    // source ports for full NAT; never overlaps Cluster.NodePortRange
	MasqueradeAll     bool
	NodePortAddresses []netip.Addr // resolved: the local addresses on which NodePorts are served
	LocalAddresses    []netip.Addr // every address of this node (Node.Addresses)
	Zone              string       // this node's zone, "" when it has none
	Admin             string       // path of the admin Unix socket, "" for none
	Metrics           string       // host:port of the metrics listener, "" for none
}

// PortRange is an inclusive range of ports.
type PortRange struct{ First, Last uint16 }

// Contains reports whether p lies in the range.
func (r PortRange) Contains(p uint16) bool { return r.First <= p && p <= r.Last }

// Cluster holds the ranges from which addresses and ports are taken.
type Cluster struct {
	Domain            string // without trailing dot, lower case
	ServiceCIDRs      []netip.Prefix
	NodePortRange     PortRange
	LoadBalancerPools []netip.Prefix
}

// Conntrack sizes the flow table and sets its timeouts.
type Conntrack struct {
	MaxFlows int
	Timeouts Timeouts
}

// Timeouts says how long a flow may be silent, by state, before it is forgotten. Each is a key of [conntrack] of the same
// name in snake_case (TCPHalfClosed is tcp_half_closed).
type Timeouts struct {
	TCPSyn         time.Duration // before the handshake is complete
	TCPEstablished time.Duration
	TCPHalfClosed  time.Duration // one side has sent FIN
	TCPTimeWait    time.Duration // both sides have sent FIN
	TCPClose       time.Duration // a side has sent RST
	UDP            time.Duration // no reply seen
	UDPStream      time.Duration // replies seen
	ICMP           time.Duration
}

// DefaultTimeouts returns the defaults; docs/decisions says where each comes from.
func DefaultTimeouts() Timeouts {
	return Timeouts{
		TCPSyn:         60 * time.Second,
		TCPEstablished: 2 * time.Hour,
		TCPHalfClosed:  time.Hour,
		TCPTimeWait:    30 * time.Second,
		TCPClose:       10 * time.Second,
		UDP:            30 * time.Second,
		UDPStream:      120 * time.Second,
		ICMP:           30 * time.Second,
	}
}

// DNS holds the settings of the authoritative server.
type DNS struct {
	TTL          uint32 // seconds, 0 to 3600
	ReverseZones []netip.Prefix
}

// Node is a machine of the cluster.
type Node struct {
	Name      string
	Zone      string
	Addresses []netip.Addr // the first of a family is the primary one
	PodCIDRs  []netip.Prefix
	Ready     bool
}

// Namespace is a Kubernetes namespace; it may be empty of services.
type Namespace struct {
	Name   string
	Labels map[string]string
}

// ServiceType is spelled as in Kubernetes.
type ServiceType string

// The service types.
const (
	ClusterIP    ServiceType = "ClusterIP"
	NodePort     ServiceType = "NodePort"
	LoadBalancer ServiceType = "LoadBalancer"
	ExternalName ServiceType = "ExternalName"
)

// Policy is an internal or external traffic policy.
type Policy string

// The traffic policies.
const (
	PolicyCluster Policy = "Cluster"
	PolicyLocal   Policy = "Local"
)

// Protocol is spelled as in Kubernetes.
type Protocol string

// The protocols a service port can have.
const (
	TCP  Protocol = "TCP"
	UDP  Protocol = "UDP"
	SCTP Protocol = "SCTP"
)

// Service is one Kubernetes Service with its endpoints.
type Service struct {
	Namespace, Name       string
	Type                  ServiceType
	ClusterIPs            []netip.Addr // at most one per family; empty when Headless or ExternalName
	Headless              bool
	ExternalIPs           []netip.Addr
	LoadBalancerIPs       []netip.Addr
	LoadBalancerProxyMode bool // load_balancer_ip_mode = "Proxy": the VIPs are not intercepted
	LoadBalancerHostnames []string
	SourceRanges          []netip.Prefix // load_balancer_source_ranges
	ExternalTrafficPolicy Policy
	InternalTrafficPolicy Policy
	PublishNotReady       bool
	ExternalName          string // lower case, no trailing dot
	Labels, Annotations   map[string]string
	Ports                 []Port
	Endpoints             []Endpoint
	HealthCheck           *HealthCheck // nil: endpoints are not checked
}

// Key returns "namespace/name".
func (s *Service) Key() string { return s.Namespace + "/" + s.Name }

// Port is a port of a service.
type Port struct {
	Name       string // may be "" when the service has one port
	Protocol   Protocol
	Port       uint16
	TargetPort uint16 // port on endpoints that do not say their own
	NodePort   uint16 // 0: none
}

// Endpoint is one address behind a service.
type Endpoint struct {
	Address     netip.Addr
	Ports       map[string]uint16 // by service port name, resolved for every port of the service this endpoint serves
	Hostname    string
	Pod         string
	Node        string // "" when unknown: such an endpoint is never local
	Zone        string
	Ready       bool
	Serving     bool
	Terminating bool
	Weight      int // 0 drains: no new flows
	ForZones    []string
	ForNodes    []string
}

// HealthCheck says how the endpoints of a service are probed.
type HealthCheck struct {
	Type     string // "tcp" or "http"
	Path     string // for http, "/" by default
	Port     string // service port name whose endpoint port is probed; "" for the first port
	Interval time.Duration
	Timeout  time.Duration
	Rise     int // consecutive successes that bring a down endpoint up
	Fall     int // consecutive failures that take an up endpoint down
}
