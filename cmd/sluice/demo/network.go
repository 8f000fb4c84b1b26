package demo

import (
	"fmt"

	"sluice/xdp/lab"
)

// The addresses of the demo's network, as in examples/demo.toml.
const (
	clientAddr4, clientAddr6   = "198.18.0.50", "2001:db8:a::50"
	gatewayFront4              = "198.18.0.1"
	gatewayFront6              = "2001:db8:a::1"
	gatewayBack4, gatewayBack6 = "198.18.1.1", "2001:db8:b::1"
	frontIface, backIface      = "sl-client", "sl-backend"
)

// backends are the three workers of the topology.
func backendNames() []string { return []string{"wk-1", "wk-2", "wk-3"} }

// backendAddrs returns the addresses of the i-th backend.
func backendAddrs(i int) (v4, v6 string) {
	return fmt.Sprintf("198.18.1.%d", 11+i), fmt.Sprintf("2001:db8:b::%d", 11+i)
}

// network is the demo's lab: a client, the gateway with two interfaces, and three backends behind a switch.
type network struct {
	lab      *lab.Lab
	client   *lab.Host
	gateway  *lab.Host
	backends []*lab.Host
}

// newNetwork builds the lab. On an error what was built is given back.
func newNetwork() (n *network, err error) {
	n = &network{lab: lab.New()}
	defer func() {
		if err != nil {
			n.lab.Close()
		}
	}()
	if n.client, err = n.lab.Host("client"); err != nil {
		return nil, err
	}
	if n.gateway, err = n.lab.Host("gateway"); err != nil {
		return nil, err
	}
	if err := n.connectClient(); err != nil {
		return nil, err
	}
	return n, n.connectBackends()
}

// connectClient links client and gateway; the client reaches the service ranges by the gateway.
func (n *network) connectClient() error {
	client, gateway := lab.End{Host: n.client, Name: "eth0"}, lab.End{Host: n.gateway, Name: frontIface}
	if err := n.lab.Link(client, gateway, lab.LinkOptions{}); err != nil {
		return err
	}
	if err := n.client.Addr("eth0", clientAddr4+"/24", clientAddr6+"/64"); err != nil {
		return err
	}
	if err := n.gateway.Addr(frontIface, gatewayFront4+"/24", gatewayFront6+"/64"); err != nil {
		return err
	}
	for prefix, via := range map[string]string{
		"198.19.0.0/16":     gatewayFront4,
		"2001:db8:96::/112": gatewayFront6,
		"2001:db8:97::/64":  gatewayFront6,
	} {
		if err := n.client.Route(prefix, via); err != nil {
			return err
		}
	}
	return nil
}

// connectBackends links the gateway's second interface and the backends by a switch.
func (n *network) connectBackends() error {
	sw, err := n.lab.Host("switch")
	if err != nil {
		return err
	}
	if err := n.lab.Link(lab.End{Host: n.gateway, Name: backIface}, lab.End{Host: sw, Name: "gw"}, lab.LinkOptions{}); err != nil {
		return err
	}
	ports := []string{"gw"}
	for i, name := range backendNames() {
		h, err := n.lab.Host(name)
		if err != nil {
			return err
		}
		n.backends = append(n.backends, h)
		if err := n.lab.Link(lab.End{Host: h, Name: "eth0"}, lab.End{Host: sw, Name: name}, lab.LinkOptions{}); err != nil {
			return err
		}
		v4, v6 := backendAddrs(i)
		if err := h.Addr("eth0", v4+"/24", v6+"/64"); err != nil {
			return err
		}
		if err := n.routeBack(h); err != nil {
			return err
		}
		ports = append(ports, name)
	}
	if err := sw.Bridge("br0", ports...); err != nil {
		return err
	}
	return n.gateway.Addr(backIface, gatewayBack4+"/24", gatewayBack6+"/64")
}

// routeBack sends a backend's replies to the gateway's address, and to clients, by way of the gateway.
func (n *network) routeBack(h *lab.Host) error {
	if err := h.Route("198.18.0.0/24", gatewayBack4); err != nil {
		return err
	}
	return h.Route("2001:db8:a::/64", gatewayBack6)
}
