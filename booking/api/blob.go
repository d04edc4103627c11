package api

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
)

// blob is an answer that many get.
type blob struct {
	etag          string // any text; one for each content
	plain, zipped []byte // JSON; zipped may be missing
}

// sendBlob answers with a blob, or with 304 if the client has it.
func (q *request) sendBlob(b blob) {
	h := q.w.Header()
	// Weak, since the two encodings share it.
	etag := `W/"` + strings.Trim(strings.TrimPrefix(b.etag, "W/"), `"`) + `"`
	h.Set("Etag", etag)
	h.Set("Vary", "Accept-Encoding")
	if sameTag(q.Header.Values("If-None-Match"), etag) {
		q.w.WriteHeader(http.StatusNotModified)
		return
	}
	body := b.plain
	if len(b.zipped) > 0 && takesGzip(q.Header.Get("Accept-Encoding")) {
		h.Set("Content-Encoding", "gzip")
		body = b.zipped
	}
	q.w.send(http.StatusOK, "application/json", body, q.Method == http.MethodHead)
}

// sameTag compares as If-None-Match does: weakly. etag is a weak one.
func sameTag(values []string, etag string) bool {
	for _, value := range values {
		for tag := range strings.SplitSeq(value, ",") {
			if tag = strings.TrimSpace(tag); tag == "*" || "W/"+strings.TrimPrefix(tag, "W/") == etag {
				return true
			}
		}
	}
	return false
}

// takesGzip reads Accept-Encoding: gzip is named, or * stands for it, with a weight that is not 0.
func takesGzip(accept string) bool {
	takes := false
	for part := range strings.SplitSeq(accept, ",") {
		name, params, weighted := strings.Cut(part, ";")
		weight := 1.0
		if weighted {
			value, ok := strings.CutPrefix(strings.ToLower(strings.ReplaceAll(params, " ", "")), "q=")
			n, err := strconv.ParseFloat(value, 64)
			if weight = n; !ok || err != nil {
				weight = 0
			}
		}
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "gzip":
			return weight > 0
		case "*":
			takes = weight > 0
		}
	}
	return takes
}

// blobOf makes an answer of JSON.
func blobOf(plain []byte) blob {
	var zipped bytes.Buffer
	zip := gzip.NewWriter(&zipped)
	_, _ = zip.Write(plain) // into memory: it can't fail
	_ = zip.Close()
	sum := sha256.Sum256(plain)
	return blob{etag: base64.RawURLEncoding.EncodeToString(sum[:12]), plain: plain, zipped: zipped.Bytes()}
}
