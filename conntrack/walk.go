package conntrack

// WalkStep calls fn for every live, unexpired flow of part number step of the table, and reports whether there are more
// parts. Counting step from 0 up visits what Walk visits, but leaves it to the caller to pause in between. A part has a
// few hundred flows at most. The handle must be outside; WalkStep enters at now for this part alone. fn may call the flow's
// methods and Remove, and must not keep the flow.
func (t *Table) WalkStep(h *Handle, now int64, step uint32, fn func(*Flow)) (more bool) {
	if step >= t.blocksInUse() {
		return false
	}
	h.walkBlock(step, now, func(f *Flow) bool { fn(f); return true })
	return step+1 < t.blocksInUse()
}
