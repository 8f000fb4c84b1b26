package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// The ports of a backend; examples/demo.toml names them as target ports.
const (
	httpPort = 8080
	echoPort = 7007
)

// Backend runs the servers of one backend until ctx ends: HTTP, which answers with the backend's name, and a UDP echo, which
// puts the name in front of what it got.
func Backend(ctx context.Context, name string) error {
	web, err := net.Listen("tcp", fmt.Sprintf(":%d", httpPort))
	if err != nil {
		return fmt.Errorf("http: %w", err)
	}
	echo, err := net.ListenPacket("udp", fmt.Sprintf(":%d", echoPort))
	if err != nil {
		web.Close()
		return fmt.Errorf("udp echo: %w", err)
	}
	server := &http.Server{Handler: webHandler(name), ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan error, 2)
	go func() { ended <- server.Serve(web) }()
	go func() { ended <- serveEcho(echo, name) }()
	select {
	case err = <-ended:
	case <-ctx.Done():
	}
	return errors.Join(err, server.Close(), echo.Close())
}

// webHandler answers every path with the backend's name, /healthz with 200.
func webHandler(name string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, name) })
	return mux
}

// serveEcho answers datagrams until the socket is closed.
func serveEcho(conn net.PacketConn, name string) error {
	buf := make([]byte, 64<<10)
	prefix := copy(buf, name+" ")
	for {
		n, from, err := conn.ReadFrom(buf[prefix:])
		if err != nil {
			return err
		}
		// An answer that cannot be sent (the client is gone) concerns that client only.
		if _, err := conn.WriteTo(buf[:prefix+n], from); errors.Is(err, net.ErrClosed) {
			return err
		}
	}
}
