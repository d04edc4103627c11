package proxy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strconv"
)

// mostEarly is how many bytes of an answer are kept back until more come: an answer that is shorter goes out with its length.
const mostEarly = 4 << 10

// localAnswer is the [http.ResponseWriter] of a handler behind a [LocalTransport]. The handler's goroutine alone uses it,
// but for cut, and for res and failed once begun is closed.
type localAnswer struct {
	asked  *http.Request
	cancel context.CancelCauseFunc
	header http.Header

	status  int
	sent    http.Header // the header as it was when the status came
	length  int64       // what Content-Length says; -1 = nothing
	written int64
	early   []byte
	in      *io.PipeReader
	out     *io.PipeWriter

	begun  chan struct{} // closed when res or failed is set
	res    *http.Response
	failed error
	done   chan struct{} // closed when the handler has returned
}

func newLocalAnswer(asked *http.Request, cancel context.CancelCauseFunc) *localAnswer {
	a := &localAnswer{
		asked: asked, cancel: cancel, header: http.Header{}, length: -1, begun: make(chan struct{}), done: make(chan struct{}),
	}
	a.in, a.out = io.Pipe()
	return a
}

// cut ends the handler's context, and has what it still writes fail.
func (a *localAnswer) cut(err error) {
	a.cancel(err)
	_ = a.in.CloseWithError(err)
}

// Header is what WriteHeader sends.
func (a *localAnswer) Header() http.Header { return a.header }

// WriteHeader is the server's: the first status stands, 1xx answers go out at once.
func (a *localAnswer) WriteHeader(status int) {
	switch {
	case status < 100 || status > 999:
		panic(fmt.Sprintf("invalid WriteHeader code %v", status))
	case a.status != 0:
	case status < 200 && status != http.StatusSwitchingProtocols:
		if t := httptrace.ContextClientTrace(a.asked.Context()); t != nil && t.Got1xxResponse != nil {
			_ = t.Got1xxResponse(status, textproto.MIMEHeader(a.header.Clone()))
		}
	default:
		a.status, a.sent = status, a.header.Clone()
		if n, err := strconv.ParseInt(a.sent.Get("Content-Length"), 10, 64); err == nil && n >= 0 {
			a.length = n
		} else {
			delete(a.sent, "Content-Length")
		}
	}
}

// Write fails when nobody reads the answer any more.
func (a *localAnswer) Write(p []byte) (int, error) {
	a.settle()
	switch {
	case !mayHaveBody(a.status):
		return 0, http.ErrBodyNotAllowed
	case a.length >= 0 && a.written+int64(len(p)) > a.length:
		return 0, http.ErrContentLength
	}
	a.written += int64(len(p))
	switch {
	case a.asked.Method == http.MethodHead:
		return len(p), nil
	case a.res == nil && len(a.early)+len(p) <= mostEarly:
		a.early = append(a.early, p...)
		return len(p), nil
	case a.res == nil:
		if err := a.flush(p); err != nil {
			return 0, err
		}
	}
	return a.out.Write(p)
}

// Flush makes a [http.Flusher] of it.
func (a *localAnswer) Flush() { _ = a.FlushError() }

// FlushError is what [http.ResponseController.Flush] calls.
func (a *localAnswer) FlushError() error {
	a.settle()
	if a.res != nil {
		return nil // nothing is kept back
	}
	return a.flush(nil)
}

// settle makes the status 200 where the handler names none.
func (a *localAnswer) settle() {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
}

// flush begins the answer and sends what was kept back; next comes right behind it.
func (a *localAnswer) flush(next []byte) error {
	early := a.early
	a.early = nil
	a.begin(append(early[:len(early):len(early)], next[:min(len(next), 512)]...), a.in)
	if len(early) == 0 {
		return nil
	}
	_, err := a.out.Write(early)
	return err
}

// begin gives the answer out; first is the beginning of its body, which tells the type of a handler that doesn't.
func (a *localAnswer) begin(first []byte, body io.Reader) {
	_, typed := a.sent["Content-Type"]
	if len(first) > 0 && !typed && a.sent.Get("Content-Encoding") == "" {
		a.sent.Set("Content-Type", http.DetectContentType(first))
	}
	a.res = &http.Response{
		Status: strconv.Itoa(a.status) + " " + http.StatusText(a.status), StatusCode: a.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: a.sent, ContentLength: a.length, Body: localBody{body, a}, Request: a.asked,
	}
	close(a.begun)
}

// end finishes the answer, or cuts it for err. A body that is shorter than its Content-Length is cut as well.
func (a *localAnswer) end(err error) {
	bodiless := a.asked.Method == http.MethodHead
	if err == nil {
		a.settle()
		bodiless = bodiless || !mayHaveBody(a.status)
		if !bodiless && a.length >= 0 && a.written < a.length {
			err = io.ErrUnexpectedEOF
		}
	}
	switch {
	case a.res != nil:
		_ = a.out.CloseWithError(err)
	case err != nil:
		a.failed = err
		close(a.begun)
	default:
		if a.length < 0 && (!bodiless || a.written > 0) {
			a.length = a.written
			a.sent.Set("Content-Length", strconv.FormatInt(a.written, 10))
		}
		a.begin(a.early, bytes.NewReader(a.early))
	}
}

// mayHaveBody is RFC 9110's rule: not 1xx, 204 and 304.
func mayHaveBody(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}
