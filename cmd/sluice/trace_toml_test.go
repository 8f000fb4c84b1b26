package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"sluice/nat/nattest"
)

// caseTOML writes a case as a topology file, key by key: what the case does not say is left to the defaults.
func caseTOML(c *nattest.PacketCase) string {
	var w tomlWriter
	n := &c.Node
	w.table("[gateway]")
	w.key("node", n.Name)
	if n.LocalDetector == "ClusterCIDR" {
		w.key("pod_cidrs", n.PodCIDRs)
	}
	w.given("pod_interfaces", len(n.PodInterfaces) > 0, n.PodInterfaces)
	w.key("masquerade_all", n.MasqueradeAll)
	w.key("nodeport_addresses", n.NodePortAddresses)
	w.table("[cluster]")
	w.key("service_cidrs", n.ServiceCIDRs)
	w.given("unknown_port", n.UnknownPort != "", n.UnknownPort)
	w.given("unallocated", n.Unallocated != "", n.Unallocated)
	w.table("[[node]]")
	w.key("name", n.Name)
	w.given("zone", n.Zone != "", n.Zone)
	w.key("addresses", slices.Concat(n.PrimaryIPs, n.OtherLocalIPs))
	for i := range c.Services {
		w.service(c, i)
	}
	return w.String()
}

// tomlWriter writes tables and keys. Strings, numbers, booleans and lists of them are in TOML what they are in JSON.
type tomlWriter struct{ strings.Builder }

func (w *tomlWriter) table(header string) { fmt.Fprintf(w, "\n%s\n", header) }

func (w *tomlWriter) key(name string, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // a string, a number, a boolean or a list of strings
	}
	fmt.Fprintf(w, "%s = %s\n", name, text)
}

// given writes a key only if the case says something about it.
func (w *tomlWriter) given(name string, given bool, value any) {
	if given {
		w.key(name, value)
	}
}

func (w *tomlWriter) service(c *nattest.PacketCase, i int) {
	s := &c.Services[i]
	w.table("[[service]]")
	w.key("namespace", s.Namespace)
	w.key("name", s.Name)
	w.key("type", s.Type)
	w.key("cluster_ips", s.ClusterIPs)
	w.given("ip_family_policy", len(s.ClusterIPs) == 2, "RequireDualStack")
	w.given("external_ips", len(s.ExternalIPs) > 0, s.ExternalIPs)
	var vips []string
	mode := ""
	for _, in := range s.LBIngress {
		vips, mode = append(vips, in.IP), in.Mode
	}
	w.given("load_balancer_ips", len(vips) > 0, vips)
	w.given("load_balancer_ip_mode", mode != "", mode)
	w.given("load_balancer_source_ranges", len(s.SourceRanges) > 0, s.SourceRanges)
	w.given("load_balancer_source_ranges_policy", s.SourceRangesPolicy != "", s.SourceRangesPolicy)
	w.given("load_balancer_source_ranges_scope", s.SourceRangesScope != "", s.SourceRangesScope)
	w.given("allocate_load_balancer_node_ports", s.AllocateNodePorts != nil, s.AllocateNodePorts)
	w.given("health_check_node_port", s.HealthCheckNodePort != 0, s.HealthCheckNodePort)
	w.given("external_traffic_policy", s.ETP != "", s.ETP)
	w.given("internal_traffic_policy", s.ITP != "", s.ITP)
	w.given("traffic_distribution", s.TrafficDistribution != "", s.TrafficDistribution)
	w.given("publish_not_ready_addresses", s.PublishNotReady, true)
	w.given("external_name", s.ExternalName != "", s.ExternalName)
	for k, v := range s.Labels {
		w.key("labels."+quoted(k), v)
	}
	for _, p := range s.Ports {
		w.table("  [[service.port]]")
		w.given("name", p.Name != "", p.Name)
		w.key("protocol", p.Proto)
		w.key("port", p.Port)
		w.given("target_port", p.Target != 0, p.Target)
		w.given("node_port", p.NodePort != 0, p.NodePort)
	}
	w.endpoints(c, s.Namespace+"/"+s.Name)
}

// endpoints writes the endpoints of a service. A case has one for each port, a topology one for each address; those of
// different conditions stay apart, and so does one that is there twice.
func (w *tomlWriter) endpoints(c *nattest.PacketCase, service string) {
	list := c.Endpoints[service]
	written := make([]bool, len(list))
	for i, e := range list {
		if written[i] {
			continue
		}
		w.table("  [[service.endpoint]]")
		w.key("address", e.Addr)
		ports := map[string]uint16{}
		for j, o := range list {
			_, twice := ports[o.PortName]
			port, name := o.Port, o.PortName
			if o.Port, o.PortName = e.Port, e.PortName; !written[j] && !twice && reflect.DeepEqual(o, e) {
				written[j], ports[name] = true, port
				w.key("ports."+quoted(name), port)
			}
		}
		w.given("node", e.Node != "", e.Node)
		w.key("ready", e.Ready)
		w.key("serving", e.Serving)
		w.key("terminating", e.Terminating)
		w.given("weight", e.Weight != nil, e.Weight)
		w.given("for_zones", len(e.ZoneHints) > 0, e.ZoneHints)
		w.given("for_nodes", len(e.NodeHints) > 0, e.NodeHints)
	}
}

// quoted returns a string as a quoted key.
func quoted(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // no string has an error
	}
	return string(text)
}
