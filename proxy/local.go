package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"runtime/debug"
)

// LocalTransport is the way to an upstream inside this process: h is asked as a server would ask it. The target comes from
// the request's URL as it would stand on the wire, so h sees the bytes that the visitor sent; Host and RemoteAddr are the
// request's own. h runs on a goroutine that has ended when the answer's body is closed: h must heed its context, which ends
// with the request and carries none of its values.
//
// A panic of h is no answer (an error, which an Edge makes a 502), or cuts the one that has begun. h can't upgrade the
// connection, and its answers have no trailers.
func LocalTransport(h http.Handler) http.RoundTripper { return local{h} }

type local struct{ handler http.Handler }

var errAborted = errors.New("proxy: local upstream gave up")

// RoundTrip returns once h has begun to answer.
func (l local) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	in, err := arriving(ctx, r)
	if err != nil {
		cancel(nil)
		closeBody(r)
		return nil, err
	}
	a := newLocalAnswer(r, cancel)
	detach := context.AfterFunc(r.Context(), func() { a.cut(context.Cause(r.Context())) })
	go func() {
		defer close(a.done) // last: whoever has waited for it may count on the body being let go
		defer closeBody(r)
		defer cancel(nil)
		defer detach()
		a.end(a.run(l.handler, in))
	}()
	select { // the handler's own context ends with every answer, so it says nothing here
	case <-a.begun:
	case <-r.Context().Done():
		<-a.done
		return nil, context.Cause(r.Context())
	}
	if a.failed != nil {
		<-a.done
		return nil, a.failed
	}
	return a.res, nil
}

// arriving is an outgoing request as a server reads it.
func arriving(ctx context.Context, r *http.Request) (*http.Request, error) {
	target := r.URL.Opaque
	if target == "" {
		target = r.URL.RequestURI()
	}
	parsed, err := url.ParseRequestURI(target)
	if err != nil {
		return nil, fmt.Errorf("proxy: local upstream: %w", err)
	}
	in := r.WithContext(ctx)
	in.URL, in.RequestURI = parsed, target
	if in.Host == "" {
		in.Host = r.URL.Host
	}
	if in.Body == nil {
		in.Body = http.NoBody
	}
	return in, nil
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
}

// run has h answer, and returns why it did not come to the end. A panic is logged as the server would log it.
func (a *localAnswer) run(h http.Handler, in *http.Request) (err error) {
	defer func() {
		switch p := recover(); p {
		case nil:
		case http.ErrAbortHandler:
			err = errAborted
		default:
			err = fmt.Errorf("proxy: local upstream panicked: %v", p)
			say := log.Printf
			if s, ok := a.asked.Context().Value(http.ServerContextKey).(*http.Server); ok && s.ErrorLog != nil {
				say = s.ErrorLog.Printf
			}
			say("http: panic serving %s: %v\n%s", a.asked.RemoteAddr, p, debug.Stack())
		}
	}()
	h.ServeHTTP(a, in)
	return nil
}

// localBody is what the visitor's side reads of an answer.
type localBody struct {
	io.Reader
	answer *localAnswer
}

// Close ends the handler, if it is still at it, and waits for that.
func (b localBody) Close() error {
	b.answer.cut(http.ErrBodyReadAfterClose)
	<-b.answer.done
	return nil
}
