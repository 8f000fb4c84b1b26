// Package bpf holds the XDP program sluice_classify as Go code generated from classify.c. The object is committed, so that
// building needs no clang; make generate rebuilds it.
//
// The exact bytes of the object depend on the version of clang, so that comparing a rebuilt one tells nothing about
// whether the committed one is current. sources.sum, written in the same step, has the hash of the sources it was built
// from; a test compares it with the sources as they are.
package bpf

//go:generate go tool bpf2go -target bpfel -go-package bpf -output-stem classify -type addr -type prefix_key -type backend_key -type nodeport_key -type snat_ports -type kind -type counts -cflags "-O2 -Wall -Wextra -Werror" Classify classify.c -- -I/usr/include/x86_64-linux-gnu -I/usr/include/aarch64-linux-gnu
//go:generate sh -c "sha256sum *.[ch] > sources.sum"
