package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
)

// Client asks a running appliance.
//
// Concurrency: the methods may be called from any goroutine.
type Client struct {
	http http.Client
}

// NewClient returns a client for the socket at path, with or without "unix:" in front.
func NewClient(path string) *Client {
	path = strings.TrimPrefix(path, "unix:")
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}
	return &Client{http.Client{Timeout: timeout, Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}}
}

// Stats returns the counters.
func (c *Client) Stats(ctx context.Context) (s Stats, err error) { return s, c.get(ctx, "stats", &s) }

// Services returns what is served.
func (c *Client) Services(ctx context.Context) (s []Service, err error) {
	return s, c.get(ctx, "services", &s)
}

// Endpoints returns the endpoints with their health.
func (c *Client) Endpoints(ctx context.Context) (e []Endpoint, err error) {
	return e, c.get(ctx, "endpoints", &e)
}

// get fetches a resource into v.
func (c *Client) get(ctx context.Context, resource string, v any) (err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://sluice/v1/"+resource, nil)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("admin socket: %w", err)
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("admin socket: %s: %s", resource, resp.Status)
	}
	if err := json.NewDecoder(resp.Body).Decode(v); err != nil {
		return fmt.Errorf("admin socket: %s: %w", resource, err)
	}
	return nil
}
