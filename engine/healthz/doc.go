// Package healthz tells load balancers and probes in front of the gateway how it does, over plain HTTP.
//
// Three things are served:
//   - Ports, the health_check_node_port of services: whether this node has local endpoints of a service (ports.go);
//   - Gateway, /healthz and /livez: whether the gateway itself keeps up with changes (gateway.go);
//   - Readiness, /ready: whether all that serving takes is there (ready.go), as CoreDNS has it.
//
// Paths, statuses, headers and bodies of the first two are those of kube-proxy (kubernetes pkg/proxy/healthcheck), so that a load balancer
// need not know which of the two runs on a node.
package healthz
