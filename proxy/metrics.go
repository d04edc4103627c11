package proxy

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ropeline/queue"
)

// metrics are the edge's measurements. Rooms are the only label that configuration decides.
type metrics struct {
	requests, joins, polls, refusals, ends *prometheus.CounterVec
	answers                                *prometheus.HistogramVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ropeline_proxy_requests_total",
			Help: "Requests. room: id, empty for no room. outcome: passed, parked (queue page), refused (403), public, no_room, core (to the booking core's own API, without a valid token).",
		}, []string{"room", "outcome"}),
		joins: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ropeline_proxy_joins_total",
			Help: "Joins. result: waiting, admitted, at_once (by opening a page), outage (without Redis), closed, full, busy, away, identity, bad.",
		}, []string{"room", "result"}),
		polls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ropeline_proxy_polls_total",
			Help: "Polls. state: before_opening, waiting, admitted, paused, closed, full, holding, expired, unknown.",
		}, []string{"room", "state"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ropeline_proxy_refusals_total",
			Help: "Requests refused. reason: of those without a valid access token missing, malformed, wrong_type, unknown_key, bad_signature, wrong_issuer, wrong_room, too_long, not_yet, expired, other_customer, internal; of others the slug of their problem, see docs/api.md: room-unknown, no-place, place-unknown, not-found, identity-required, cross-origin, room-closed, bad-request, bad-target, ambiguous-path, method-not-allowed, expectation-failed, request-timeout, too-large, redis-away, line-full, upstream-down, upstream-timeout.",
		}, []string{"room", "reason"}),
		ends: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ropeline_proxy_left_total",
			Help: "Places given up and sessions ended early. by: visitor, upstream.",
		}, []string{"room", "by"}),
		answers: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "ropeline_proxy_upstream_seconds",
			Help:    "Time to an upstream's answer of admitted visitors. code: 1xx, 2xx, 3xx, 4xx, 5xx.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"room", "code"}),
	}
	if r != nil {
		r.MustRegister(m.requests, m.joins, m.polls, m.refusals, m.ends, m.answers)
	}
	return m
}

func (m *metrics) request(room, outcome string) { m.requests.WithLabelValues(room, outcome).Inc() }

func (m *metrics) join(room, result string) { m.joins.WithLabelValues(room, result).Inc() }

func (m *metrics) poll(room string, state queue.State) {
	m.polls.WithLabelValues(room, string(state)).Inc()
}

func (m *metrics) refusal(room, reason string) { m.refusals.WithLabelValues(room, reason).Inc() }

func (m *metrics) ended(room, by string) { m.ends.WithLabelValues(room, by).Inc() }

var codes = [...]string{"", "1xx", "2xx", "3xx", "4xx", "5xx"}

func (m *metrics) upstream(room string, status int, took time.Duration) {
	m.answers.WithLabelValues(room, codes[min(max(status/100, 1), 5)]).Observe(took.Seconds())
}
