package proxy

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
)

// upload is a request body on its way to the upstream. It remembers how reading from the client failed, since
// the error that comes out of the transport does not tell whose fault it was.
type upload struct {
	io.ReadCloser

	mu       sync.Mutex // held during a Read, so that cause waits for one under way
	err      error
	in       http.Header // trailer of the client's request, filled when the body has been read
	announce http.Header // trailer of the upstream's request
}

// announceTrailers lets the announced trailers through that are not ours.
func (u *upload) announceTrailers(in, out *http.Request) {
	out.Trailer = nil
	for name := range in.Trailer {
		if ours(name) || forwarding(name) {
			continue
		}
		if out.Trailer == nil {
			out.Trailer = make(http.Header, len(in.Trailer))
			out.ContentLength = -1 // only a chunked body has trailers
		}
		out.Trailer[name] = nil
	}
	u.in, u.announce = in.Trailer, out.Trailer
}

func (u *upload) Read(p []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	n, err := u.ReadCloser.Read(p)
	switch {
	case err == io.EOF:
		for name := range u.announce {
			u.announce[name] = u.in[name]
		}
	case err != nil && u.err == nil && !errors.Is(err, http.ErrBodyReadAfterClose):
		u.err = err
	}
	return n, err
}

// cause is the status for a body that could not be read, or 0. When the client is gone a Read under way is
// about to fail and is waited for.
func (u *upload) cause(gone bool, protoMajor int) (status int, slug string) {
	if gone {
		u.mu.Lock()
	} else if !u.mu.TryLock() {
		return 0, ""
	}
	defer u.mu.Unlock()
	var (
		tooLarge *http.MaxBytesError
		network  net.Error
	)
	switch err := u.err; {
	case err == nil:
		return 0, ""
	case errors.Is(err, os.ErrDeadlineExceeded):
		return http.StatusRequestTimeout, "request-timeout"
	case errors.As(err, &tooLarge):
		return http.StatusRequestEntityTooLarge, "too-large"
	case protoMajor != 1, errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &network):
		return statusClientGone, ""
	}
	return http.StatusBadRequest, "bad-request"
}
