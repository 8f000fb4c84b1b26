package traffic

//go:generate go tool bpf2go -target bpfel -go-package traffic -cflags "-O2 -Wall -Werror" traffic traffic.c -- -I/usr/include/x86_64-linux-gnu -I/usr/include/aarch64-linux-gnu
//go:generate sh -c "sha256sum *.[ch] > sources.sum"
