package nat

// retiredLimit is how many names that are out of use a registry remembers before it forgets them all.
const retiredLimit = 1 << 16

// registry gives names numbers that stay the same from generation to generation. A number is never given to a second
// name: flows and counters may refer to it long after its name has left the topology. A name that returns gets its
// old number, unless so many names have come and gone since that the registry has let go of them.
type registry struct {
	live    map[string]uint32 // of this generation
	retired map[string]uint32 // of earlier ones
	last    uint32            // the largest number given; 0 is none
}

// next returns the registry of the generation after r's, without names in use.
func (r *registry) next() registry {
	retired := make(map[string]uint32, len(r.retired)+len(r.live))
	if len(r.retired) <= retiredLimit {
		for name, id := range r.retired {
			retired[name] = id
		}
	}
	for name, id := range r.live {
		retired[name] = id
	}
	return registry{live: make(map[string]uint32, len(r.live)), retired: retired, last: r.last}
}

// id returns the number of name and puts it in use.
func (r *registry) id(name string) uint32 {
	if id, ok := r.live[name]; ok {
		return id
	}
	id, known := r.retired[name]
	if known {
		delete(r.retired, name)
	} else {
		r.last++
		id = r.last
	}
	r.live[name] = id
	return id
}
