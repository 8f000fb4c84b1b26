package health

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// maxBody bounds how much of an answer is read: it is thrown away, and only read so that the server sees an orderly end.
const maxBody = 64 << 10

// httpChecker is well when a GET is answered with a status of 200 to 399.
type httpChecker struct{ client *http.Client }

func newHTTPChecker(d *dialer) httpChecker {
	return httpChecker{&http.Client{
		// A connection for each check: that the server still accepts some is half of what is to be found out.
		Transport: &http.Transport{DialContext: d.DialContext, DisableKeepAlives: true, Proxy: nil},
		// A redirect is an answer; where it leads is not what is checked.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Check implements Checker.
func (c httpChecker) Check(ctx context.Context, t *Target) error {
	target, err := url.Parse("http://" + t.Address.String() + t.Check.Path)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", "sluice-health-check")
	resp, err := c.client.Do(req)
	if err != nil {
		return plain(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, maxBody)); err != nil {
		return fmt.Errorf("reading the answer: %w", plain(err))
	}
	if resp.StatusCode < 200 || resp.StatusCode > 399 {
		return fmt.Errorf("status %s", resp.Status)
	}
	return nil
}
