package crowd

import (
	"net/http"
	"net/url"
)

// userAgent is what the crowd calls itself, so that an operator can tell it in a log.
const userAgent = "ropeline-crowd"

// pageRequest opens the target: a browser by navigation, with the cookies it has; an API client by fetch, with
// its access token.
func (v *visitor) pageRequest() request {
	h := http.Header{"User-Agent": {userAgent}, "Accept-Encoding": {"gzip"}}
	if v.plan.api {
		h.Set("Accept", "application/json")
		v.sign(h)
	} else {
		h.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
		h.Set("Accept-Language", "vi,en;q=0.8")
		h["Sec-Fetch-Mode"], h["Sec-Fetch-Dest"], h["Sec-Fetch-Site"] = []string{"navigate"}, []string{"document"}, []string{"none"}
		v.addCookies(h, v.target.EscapedPath())
	}
	return request{method: http.MethodGet, target: v.target.RequestURI(), header: h}
}

// joinRequest joins, or joins again: a browser shows its place cookie, an API client its place token.
func (v *visitor) joinRequest() request {
	req := v.queueRequest(http.MethodPost, v.queuePath)
	if v.plan.api && v.queueID != "" {
		req.header.Set("Content-Type", "application/json")
		req.body = `{"queueId":"` + v.queueID + `"}`
	}
	return req
}

func (v *visitor) pollRequest() request { return v.queueRequest(http.MethodGet, v.placePath()) }

// endRequest leaves the line, or ends the session.
func (v *visitor) endRequest() request {
	req := v.queueRequest(http.MethodDelete, v.placePath())
	v.sign(req.header)
	return req
}

func (v *visitor) placePath() string {
	if v.plan.api && v.queueID != "" {
		return v.queuePath + "/" + url.PathEscape(v.queueID)
	}
	return v.queuePath + "/me"
}

// queueRequest is a request as the queue page's script makes it.
func (v *visitor) queueRequest(method, path string) request {
	h := http.Header{"User-Agent": {userAgent}, "Accept": {"application/json"}}
	if !v.plan.api {
		h["Sec-Fetch-Mode"], h["Sec-Fetch-Dest"], h["Sec-Fetch-Site"] = []string{"cors"}, []string{"empty"}, []string{"same-origin"}
		if method != http.MethodGet {
			h.Set("Origin", v.target.Scheme+"://"+v.target.Host)
		}
		v.addCookies(h, path)
	}
	return request{method: method, target: path, header: h}
}

func (v *visitor) addCookies(h http.Header, path string) {
	if c := v.jar.header(path); c != "" {
		h.Set("Cookie", c)
	}
}

// sign shows an API client's access token.
func (v *visitor) sign(h http.Header) {
	if v.plan.api && v.access != "" {
		h.Set("X-Queue-Token", v.access)
	}
}
