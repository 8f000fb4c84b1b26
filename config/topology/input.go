package topology

import "time"

// Input is a topology as a source gives it: names and addresses as text, nothing resolved. The tag key of a field is the name
// by which users know it; faults name objects by paths of these keys, such as "service[3].port[0].node_port", where a number
// counts from 0 in the order of the source.
//
// NewInput and the SetDefaults methods fill in what is not given, so that a source only overwrites.
type Input struct {
	Gateway    GatewayInput     `key:"gateway"`
	Cluster    ClusterInput     `key:"cluster"`
	Conntrack  ConntrackInput   `key:"conntrack"`
	DNS        DNSInput         `key:"dns"`
	Nodes      []NodeInput      `key:"node"`
	Namespaces []NamespaceInput `key:"namespace"`
	Services   []ServiceInput   `key:"service"`
	Pods       []PodInput       `key:"pod"`
	TCPRoutes  []RouteInput     `key:"tcp_route"`
	UDPRoutes  []RouteInput     `key:"udp_route"`
}

// GatewayInput is the [gateway] table.
type GatewayInput struct {
	Node              string   `key:"node"` // "": the host's name
	Interfaces        []string `key:"interfaces"`
	Driver            string   `key:"driver"`
	XDPMode           string   `key:"xdp_mode"`
	Queues            int      `key:"queues"`
	FlowCache         string   `key:"flow_cache"`
	Checksum          string   `key:"checksum"`
	PodCIDRs          []string `key:"pod_cidrs"`
	PodInterfaces     []string `key:"pod_interfaces"`
	RejectWith        string   `key:"reject_with"`
	SNATAddresses     []string `key:"snat_addresses"`
	SNATPorts         string   `key:"snat_ports"`
	MasqueradeAll     bool     `key:"masquerade_all"`
	NodePortAddresses any      `key:"nodeport_addresses"` // a keyword, or a list of prefixes
	Admin             string   `key:"admin"`
	Metrics           string   `key:"metrics"`
	Healthz           string   `key:"healthz"`
	StateFile         string   `key:"state_file"`
}

// ClusterInput is the [cluster] table.
type ClusterInput struct {
	Domain            string   `key:"domain"`
	ServiceCIDRs      []string `key:"service_cidrs"`
	NodePortRange     string   `key:"node_port_range"`
	LoadBalancerPools []string `key:"load_balancer_pools"`
	ExternalIPCIDRs   []string `key:"external_ip_cidrs"`
	UnknownPort       string   `key:"unknown_port"`
	Unallocated       string   `key:"unallocated"`
	SliceSize         int      `key:"max_endpoints_per_slice"`
}

// ConntrackInput is the [conntrack] table. A timeout that is not given has its default.
type ConntrackInput struct {
	MaxFlows       int    `key:"max_flows"`
	TCPLiberal     bool   `key:"tcp_liberal"`
	TCPSyn         string `key:"tcp_syn"`
	TCPEstablished string `key:"tcp_established"`
	TCPHalfClosed  string `key:"tcp_half_closed"`
	TCPTimeWait    string `key:"tcp_time_wait"`
	TCPClose       string `key:"tcp_close"`
	UDP            string `key:"udp"`
	UDPStream      string `key:"udp_stream"`
	ICMP           string `key:"icmp"`
	SCTPSetup      string `key:"sctp_setup"`
	SCTP           string `key:"sctp"`
	SCTPShutdown   string `key:"sctp_shutdown"`
}

// DNSInput is the [dns] table.
type DNSInput struct {
	TTL                 int      `key:"ttl"`
	Address             string   `key:"address"`
	Pods                string   `key:"pods"`
	ReverseZones        []string `key:"reverse_zones"`
	Namespaces          []string `key:"namespaces"`
	IgnoreEmptyServices bool     `key:"ignore_empty_services"`
	NoEndpoints         bool     `key:"no_endpoints"`
	EndpointPodNames    bool     `key:"endpoint_pod_names"`
	Zonal               bool     `key:"zonal"`
	ExternalZone        string   `key:"external_zone"`
	Chaos               string   `key:"chaos"`
	Search              []string `key:"search"`
	TransferTo          []string `key:"transfer_to"` // prefixes, and addresses
	CoreDNSCompat       bool     `key:"coredns_compat"`

	Forward []string            `key:"forward"` // servers, and files that list some
	Stub    map[string][]string `key:"stub"`    // the same by domain

	Autopath bool `key:"autopath"`

	TLSCertificate string `key:"tls_certificate"` // path
	TLSKey         string `key:"tls_key"`         // path
}

// NodeInput is a [[node]].
type NodeInput struct {
	Name      string   `key:"name"`
	Zone      string   `key:"zone"`
	Addresses []string `key:"addresses"`
	PodCIDRs  []string `key:"pod_cidrs"`

	CPU          float64 `key:"cpu"`
	Ready        bool    `key:"ready"`
	ControlPlane bool    `key:"control_plane"`
}

// NamespaceInput is a [[namespace]].
type NamespaceInput struct {
	Name   string            `key:"name"`
	Labels map[string]string `key:"labels"`
}

// ServiceInput is a [[service]].
type ServiceInput struct {
	Namespace             string            `key:"namespace"`
	Name                  string            `key:"name"`
	Type                  string            `key:"type"`
	ClusterIPs            []string          `key:"cluster_ips"`
	IPFamilies            []string          `key:"ip_families"`
	IPFamilyPolicy        string            `key:"ip_family_policy"`
	ExternalIPs           []string          `key:"external_ips"`
	LoadBalancerIPs       []string          `key:"load_balancer_ips"`
	LoadBalancerIPMode    string            `key:"load_balancer_ip_mode"`
	LoadBalancerHostnames []string          `key:"load_balancer_hostnames"`
	SourceRanges          []string          `key:"load_balancer_source_ranges"`
	SourceRangesPolicy    string            `key:"load_balancer_source_ranges_policy"` // allow | deny
	SourceRangesScope     string            `key:"load_balancer_source_ranges_scope"`  // vip | all
	AllocateNodePorts     bool              `key:"allocate_load_balancer_node_ports"`
	HealthCheckNodePort   int               `key:"health_check_node_port"` // 0: allocated where the rules need one
	ExternalTrafficPolicy string            `key:"external_traffic_policy"`
	InternalTrafficPolicy string            `key:"internal_traffic_policy"`
	TrafficDistribution   string            `key:"traffic_distribution"`
	SessionAffinity       string            `key:"session_affinity"`
	AffinityTimeout       string            `key:"session_affinity_timeout"`
	AffinityScope         string            `key:"session_affinity_scope"` // port | service
	OnEndpointRemoved     string            `key:"on_endpoint_removed"`    // drain | reset
	PublishNotReady       bool              `key:"publish_not_ready_addresses"`
	Selector              map[string]string `key:"selector"`
	ExternalName          string            `key:"external_name"`
	Labels                map[string]string `key:"labels"`
	Annotations           map[string]string `key:"annotations"`
	Ports                 []PortInput       `key:"port"`
	Endpoints             []EndpointInput   `key:"endpoint"`
	HealthCheck           *HealthCheckInput `key:"health_check"`
}

// PortInput is a [[service.port]].
type PortInput struct {
	Name       string `key:"name"`
	Protocol   string `key:"protocol"`
	Port       int    `key:"port"`
	TargetPort any    `key:"target_port"` // a number, or the name of a port of pods; nil: the same as port
	NodePort   int    `key:"node_port"`   // 0: allocated where the type has one
}

// EndpointInput is a [[service.endpoint]].
type EndpointInput struct {
	Address     string         `key:"address"`
	Ports       map[string]int `key:"ports"`
	Hostname    string         `key:"hostname"`
	Pod         string         `key:"pod"`
	Node        string         `key:"node"`
	Zone        string         `key:"zone"`
	Ready       *bool          `key:"ready"` // nil: unless terminating
	Serving     bool           `key:"serving"`
	Terminating bool           `key:"terminating"`
	Weight      int            `key:"weight"`
	ForZones    []string       `key:"for_zones"`
	ForNodes    []string       `key:"for_nodes"`
}

// HealthCheckInput is a [service.health_check].
type HealthCheckInput struct {
	Type     string `key:"type"`
	Path     string `key:"path"`
	Port     string `key:"port"`
	Interval string `key:"interval"`
	Timeout  string `key:"timeout"`
	Rise     int    `key:"rise"`
	Fall     int    `key:"fall"`
}

// PodInput is a [[pod]].
type PodInput struct {
	Namespace   string            `key:"namespace"`
	Name        string            `key:"name"`
	Addresses   []string          `key:"addresses"`
	Node        string            `key:"node"`
	Labels      map[string]string `key:"labels"`
	Ready       bool              `key:"ready"`
	Terminating bool              `key:"terminating"`
	Phase       string            `key:"phase"`
	Hostname    string            `key:"hostname"`
	Subdomain   string            `key:"subdomain"`
	Ports       map[string]int    `key:"ports"`
}

// RouteInput is a [[tcp_route]] or [[udp_route]].
type RouteInput struct {
	Namespace string              `key:"namespace"`
	Name      string              `key:"name"`
	Created   time.Time           `key:"created"`
	Listen    []string            `key:"listen"`
	Backends  []RouteBackendInput `key:"backend"`
}

// RouteBackendInput is a [[tcp_route.backend]] or [[udp_route.backend]].
type RouteBackendInput struct {
	Service string `key:"service"`
	Port    any    `key:"port"` // name or number
	Weight  int    `key:"weight"`
}

// NewInput returns an input with the defaults of the tables that occur once.
func NewInput() *Input {
	return &Input{
		Gateway: GatewayInput{Driver: "afxdp", XDPMode: "auto", FlowCache: "auto", Checksum: "auto", SNATPorts: "32768-60999",
			RejectWith: "icmp", Healthz: "0.0.0.0:10256", StateFile: "/var/lib/sluice/allocations.json",
			NodePortAddresses: "primary", Admin: "unix:/run/sluice/admin.sock", Metrics: "127.0.0.1:10249"},
		Cluster:   ClusterInput{Domain: "cluster.local", NodePortRange: "30000-32767", UnknownPort: "reject", Unallocated: "drop", SliceSize: 100},
		Conntrack: ConntrackInput{MaxFlows: 1 << 20},
		DNS:       DNSInput{TTL: 5, Pods: string(PodsDisabled)},
	}
}

// SetDefaults fills in a service's defaults.
func (s *ServiceInput) SetDefaults() {
	s.Type, s.LoadBalancerIPMode, s.AllocateNodePorts = string(ClusterIP), "VIP", true
	s.SourceRangesPolicy, s.SourceRangesScope = "allow", "vip"
	s.SessionAffinity, s.AffinityTimeout, s.AffinityScope, s.OnEndpointRemoved = "None", "3h", "port", "drain"
	s.ExternalTrafficPolicy, s.InternalTrafficPolicy = string(PolicyCluster), string(PolicyCluster)
}

// SetDefaults fills in a port's defaults.
func (p *PortInput) SetDefaults() { p.Protocol = string(TCP) }

// SetDefaults fills in an endpoint's defaults: Kubernetes reads missing conditions so.
func (e *EndpointInput) SetDefaults() { e.Serving, e.Weight = true, 1 }

// SetDefaults fills in a node's defaults.
func (n *NodeInput) SetDefaults() { n.Ready = true }

// SetDefaults fills in a pod's defaults.
func (p *PodInput) SetDefaults() { p.Ready, p.Phase = true, "Running" }

// SetDefaults fills in a route backend's defaults.
func (b *RouteBackendInput) SetDefaults() { b.Weight = 1 }

// SetDefaults fills in a health check's defaults.
func (h *HealthCheckInput) SetDefaults() {
	h.Type, h.Path, h.Interval, h.Timeout, h.Rise, h.Fall = "tcp", "/", "2s", "1s", 2, 3
}
