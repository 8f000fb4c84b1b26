// Package topology is the resolved model of what a gateway serves, whatever source it came from: services, endpoints,
// nodes and the gateway's own settings, validated and with every default and allocated value filled in.
//
// It knows neither TOML nor packets nor sockets. Values are immutable once Resolve has returned them: every package
// that holds a *Topology only reads it, so that one value can be shared by all goroutines.
package topology

import (
	"net/netip"
	"slices"
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
	Pods       []Pod     // in the order of the source
	Routes     []Route   // in order of precedence: the oldest first, then by namespace and name
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
	PodInterfaces     []string     // names of interfaces behind which pods are; a trailing * stands for any ending
	RejectWith        string       // "icmp" or "tcp-reset": how TCP is refused; other protocols always get ICMP
	SNATAddresses     []netip.Addr // resolved: at most one per family, IPv4 first
	SNATPorts         PortRange    // source ports for full NAT; never overlaps Cluster.NodePortRange
	MasqueradeAll     bool
	NodePortAddresses []netip.Addr // resolved: the local addresses on which NodePorts are served
	LocalAddresses    []netip.Addr // every address of this node (Node.Addresses)
	Zone              string       // this node's zone, "" when it has none
	Admin             string       // path of the admin Unix socket, "" for none
	Metrics           string       // host:port of the metrics listener, "" for none
	Healthz           string       // host:port of the listener for /healthz and /livez, "" for none
	StateFile         string       // keeps allocated addresses and ports over restarts, "" for none
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
	ExternalIPCIDRs   []netip.Prefix // where external IPs may lie; empty: anywhere that is nobody's
	UnknownPort       string         // "reject" or "pass": a service address on a protocol and port that no service has
	Unallocated       string         // "drop" or "pass": an address of a service range that no service has
	SliceSize         int            // endpoints of an EndpointSlice, 1 to 1000
}

// Conntrack sizes the flow table and sets its timeouts.
type Conntrack struct {
	MaxFlows   int
	TCPLiberal bool // segments outside the window are forwarded all the same
	Timeouts   Timeouts
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
	SCTPSetup      time.Duration // before the four-way handshake is complete
	SCTP           time.Duration // established
	SCTPShutdown   time.Duration // shutting down or aborted
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
		SCTPSetup:      10 * time.Second,
		SCTP:           210 * time.Second,
		SCTPShutdown:   3 * time.Second,
	}
}

// PodsMode says which names of pods (172-24-4-9.ops.pod.cluster.local) there are.
type PodsMode string

// The modes, as CoreDNS names them.
const (
	PodsDisabled PodsMode = "disabled" // none
	PodsInsecure PodsMode = "insecure" // one for every address, in every namespace that there is
	PodsVerified PodsMode = "verified" // those of the pods of the topology
)

// DNS holds the settings of the authoritative server.
type DNS struct {
	TTL          uint32 // seconds, 0 to 3600
	ReverseZones []netip.Prefix
	Addresses    []netip.Addr // where a gateway answers by its data path; none: it does not
	Pods         PodsMode
	Namespaces   []string       // those that are shown; empty: all
	IgnoreEmpty  bool           // services with a ClusterIP and without ready endpoints have no name
	NoEndpoints  bool           // nor have single endpoints and headless services
	PodNames     bool           // endpoints without hostname are named after their pods
	Zonal        bool           // headless services have names for the endpoints of each topology zone
	ExternalZone string         // zone of the addresses that services have outside, lower case; "": none
	Chaos        string         // answer to questions for the version; "": they are refused
	Search       []string       // search domains of the nodes, lower case
	TransferTo   []netip.Prefix // who may have whole zones; single addresses are told of changes
	Compat       bool           // CoreDNS' answers where they differ from the RFCs
	Forward      []Upstream     // who is asked for names of no zone; none: they are refused
	Stubs        []Stub         // who is asked for those of some domains, sorted by domain
	Autopath     bool           // the search paths of pods are followed for them

	TLSCertificate, TLSKey string // paths of PEM files, both or none: DNS over TLS
}

// Forwards reports whether names of no zone can be had at all.
func (d *DNS) Forwards() bool { return len(d.Forward)+len(d.Stubs) > 0 }

// Upstream is where DNS queries are forwarded to: a server, or a file in the format of resolv.conf(5) that lists servers.
type Upstream struct {
	Server netip.AddrPort // valid iff File is ""
	File   string         // absolute path
}

// Stub is a domain whose names other servers know.
type Stub struct {
	Domain  string // lower case, without the dot at the end
	Servers []Upstream
}

// Shows reports whether names of a namespace are shown.
func (d *DNS) Shows(namespace string) bool {
	return len(d.Namespaces) == 0 || slices.Contains(d.Namespaces, namespace)
}

// Node is a machine of the cluster.
type Node struct {
	Name      string
	Zone      string
	Addresses []netip.Addr // the first of a family is the primary one
	PodCIDRs  []netip.Prefix
	Ready     bool
	// ControlPlane keeps the node's processors out of the shares that hints are allocated by.
	ControlPlane bool
	CPU          float64 // allocatable processors, 0 when unknown
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
	SourceRangesDeny      bool           // the ranges are refused instead of all others
	SourceRangesAll       bool           // the ranges hold for every address and NodePort of the service, not for VIPs alone
	ExternalTrafficPolicy Policy
	InternalTrafficPolicy Policy
	PublishNotReady       bool
	HealthCheckNodePort   uint16        // 0: none
	SessionAffinity       bool          // by client address
	AffinityTimeout       time.Duration // since the client's last new flow, 1 s to 24 h
	AffinityPerService    bool          // one backend address for all ports of the service, instead of one per port
	RemovedReset          bool          // TCP flows of endpoints that leave are reset, instead of going on to their end
	TrafficDistribution   string        // "", "PreferSameZone", "PreferSameNode" or "PreferClose"
	Selector              map[string]string
	ExternalName          string // lower case, no trailing dot
	Labels, Annotations   map[string]string
	Ports                 []Port
	Endpoints             []Endpoint
	Slices                []Slice
	Hints                 HintsStatus
	HealthCheck           *HealthCheck // nil: endpoints are not checked
}

// Key returns "namespace/name".
func (s *Service) Key() string { return s.Namespace + "/" + s.Name }

// Port is a port of a service.
type Port struct {
	Name       string // may be "" when the service has one port
	Protocol   Protocol
	Port       uint16
	TargetPort uint16 // port on endpoints that do not say their own; 0 with TargetName
	TargetName string // name of a port of pods; "" for a number
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

// Slice is one EndpointSlice of a service.
type Slice struct {
	Name      string
	Family    string            // "IPv4" or "IPv6"
	Ports     map[string]uint16 // by service port name, the same for all its endpoints
	Endpoints []int             // indices into Service.Endpoints
}

// HintsStatus says whether the endpoints of a service have topology hints that were computed here, and if not, why.
type HintsStatus struct {
	Mode   string // "none", "topology", "PreferSameZone" or "PreferSameNode"
	Reason string // why all endpoints, or those of a family, have none although the service asks for them; "" otherwise
}

// Pod is a pod, from which the endpoints of services with a selector are computed.
type Pod struct {
	Namespace, Name string
	Addresses       []netip.Addr
	Node            string
	Labels          map[string]string
	Ready           bool
	Terminating     bool
	Phase           string // "Pending", "Running", "Succeeded", "Failed" or "Unknown"
	Hostname        string
	Subdomain       string
	Ports           map[string]uint16 // named container ports
}

// Ended reports whether the pod has ended, and so given its addresses back.
func (p *Pod) Ended() bool { return p.Phase == "Succeeded" || p.Phase == "Failed" }

// Route is a TCPRoute or UDPRoute of the Gateway API: it spreads what arrives at its listeners over services by weight.
type Route struct {
	Namespace, Name string
	Protocol        Protocol // TCP or UDP
	Created         time.Time
	Listen          []netip.AddrPort // those of its listeners that no older route has
	Backends        []RouteBackend
	Lost            []LostListener // listeners that an older route has
}

// LostListener is a listener of a route that an older one has.
type LostListener struct {
	Listen netip.AddrPort
	Winner string // "namespace/name" of that route
}

// Key returns "namespace/name".
func (r *Route) Key() string { return r.Namespace + "/" + r.Name }

// RouteBackend is a share of a route.
type RouteBackend struct {
	Service string // "namespace/name"
	Port    string // name of the service port, "" for an unnamed one
	Weight  int    // 0 to 1000000; the share is the weight by the sum of all
	// Problem says why this share is refused: BackendNotFound or RefNotPermitted; "" when it is not.
	Problem string
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
