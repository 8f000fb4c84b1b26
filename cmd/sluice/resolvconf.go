package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"sluice/config/topology"
)

// resolvConf is what the resolver of a pod is told.
type resolvConf struct {
	Nameservers []netip.Addr `json:"nameservers"`
	Search      []string     `json:"search"`
	Options     []string     `json:"options"`
}

func newResolvConf() *cobra.Command {
	var path, statePath, namespace string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "resolvconf -c FILE|DIR --namespace NAME",
		Short: "Print the resolv.conf of the pods of a namespace",
		Long: "Resolvconf prints what kubelet writes into pods whose dnsPolicy is ClusterFirst: the DNS addresses of the topology, the\n" +
			"search path of the namespace with dns.search behind it, and ndots:5.",
		Example: "  sluice resolvconf -c web.toml --namespace shop",
		Args:    noArgs,
		RunE: action(func(cmd *cobra.Command, _ []string) error {
			t, err := loadAfter(cmd, path, statePath)
			if err != nil {
				return err
			}
			conf, err := resolvConfOf(t, namespace)
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(conf)
			}
			return conf.print(cmd.OutOrStdout())
		}),
	}
	configFlag(cmd, &path)
	stateFlag(cmd, &statePath)
	jsonFlag(cmd, &asJSON)
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "namespace of the pods")
	if err := cmd.MarkFlagRequired("namespace"); err != nil {
		panic(err) // the flag was defined one line above
	}
	return cmd
}

// resolvConfOf returns the configuration of the pods of a namespace (Kubernetes, "DNS for Services and Pods").
func resolvConfOf(t *topology.Topology, namespace string) (*resolvConf, error) {
	known := slices.ContainsFunc(t.Namespaces, func(n topology.Namespace) bool { return n.Name == namespace })
	switch {
	case !known:
		var names []string
		for _, n := range t.Namespaces {
			names = append(names, n.Name)
		}
		slices.Sort(names)
		return nil, fmt.Errorf("namespace %q is not in the topology, which has %s", namespace, strings.Join(names, ", "))
	case len(t.DNS.Addresses) == 0:
		return nil, fmt.Errorf("the topology has no DNS address: set dns.address, or add the service kube-system/kube-dns")
	}
	domain := t.Cluster.Domain
	return &resolvConf{Nameservers: t.DNS.Addresses, Options: []string{"ndots:5"},
		Search: append([]string{namespace + ".svc." + domain, "svc." + domain, domain}, t.DNS.Search...)}, nil
}

// print writes the file (resolv.conf(5)).
func (c *resolvConf) print(w io.Writer) error {
	for _, a := range c.Nameservers {
		if _, err := fmt.Fprintln(w, "nameserver", a); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "search %s\noptions %s\n", strings.Join(c.Search, " "), strings.Join(c.Options, " "))
	return err
}
