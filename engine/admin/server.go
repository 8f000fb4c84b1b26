package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// Server serves the API.
type Server struct {
	http     *http.Server
	listener net.Listener
	log      *slog.Logger
}

// timeout bounds each request and each dial. Answers come from memory.
const timeout = 5 * time.Second

// Listen opens the socket at path, mode 0660, and makes its folder if need be. A socket left by a process that has ended is
// replaced; one on which somebody listens is an error.
func Listen(path string, source Source, log *slog.Logger) (*Server, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("admin socket: %w", err)
	}
	if err := removeStale(path); err != nil {
		return nil, fmt.Errorf("admin socket %s: %w", path, err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("admin socket: %w", err)
	}
	if err := os.Chmod(path, 0o660); err != nil {
		return nil, errors.Join(fmt.Errorf("admin socket: %w", err), l.Close())
	}
	s := &Server{listener: l, log: log, http: &http.Server{
		Handler: handler(source, log), ReadHeaderTimeout: timeout, WriteTimeout: timeout, IdleTimeout: time.Minute,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}}
	return s, nil
}

// removeStale removes a socket on which nobody listens.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return errors.New("is there already and not a socket: remove it, or set gateway.admin to another path")
	}
	if c, err := net.DialTimeout("unix", path, timeout); err == nil {
		return errors.Join(errors.New("another process listens: stop it, or set gateway.admin to another path"), c.Close())
	}
	return os.Remove(path)
}

// Serve answers requests until Close.
func (s *Server) Serve() {
	if err := s.http.Serve(s.listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
		s.log.Error("the admin socket serves no longer; restart to have it back", "error", err)
	}
}

// Close ends Serve, lets requests under way finish for a moment, and removes the socket.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil {
		return s.http.Close()
	}
	// Before Serve has begun, Shutdown does not know of the listener.
	if err := s.listener.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// handler returns the routes.
func handler(source Source, log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/stats", func(w http.ResponseWriter, _ *http.Request) { reply(w, source.Stats(), log) })
	mux.HandleFunc("GET /v1/services", func(w http.ResponseWriter, _ *http.Request) { reply(w, source.Services(), log) })
	mux.HandleFunc("GET /v1/endpoints", func(w http.ResponseWriter, _ *http.Request) { reply(w, source.Endpoints(), log) })
	return mux
}

func reply(w http.ResponseWriter, v any, log *slog.Logger) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		log.Debug("an admin request was not answered in full", "error", err)
	}
}
