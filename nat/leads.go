package nat

import "sluice/xdp/packet"

// Leads reports whether what tu is addressed to still leads to the service port with number id: the service exists, and
// the address, or the NodePort, is its own. Traffic policies, source ranges and the state of endpoints are not asked.
func (t *Table) Leads(tu *packet.Tuple, id uint32) bool {
	f, ok := t.find(tu)
	return ok && f.port.ID == id
}
