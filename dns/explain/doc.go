// Package explain says in words why DNS answers a question as it does: how the name was read, which objects of the topology have the
// records, or which label of the name does not exist and what is near it.
//
// It reads the topology a second time, by itself: the compiled zones remember records and not whose they are. Tests hold what it finds
// to what the zones answer, for every name that exists and for many that do not.
//
//	explain.go   the steps of one question
//	verdict.go   what the question comes to, along aliases
//	missing.go   names that do not exist
//	outside.go   names in no zone
//	search.go    answers that were found on the search path of the client
//	suggest.go   names that were perhaps meant
//	records.go   whose each record of the answer is
//	tree.go      the names of a topology, each with the objects that it stands for
//	names.go     wire form and text
//	services.go, endpoints.go, zonal.go, external.go, pods.go, reverse.go   what these names are
package explain
