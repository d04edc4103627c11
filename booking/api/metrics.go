package api

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the API's measurements. Labels come from the table of routes only.
type metrics struct {
	requests *prometheus.CounterVec
	took     *prometheus.HistogramVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ropeline_booking_api_requests_total",
			Help: "Requests. route: pattern of the path without /v1, empty for none. status: of the answer, 499 if the client was gone.",
		}, []string{"route", "status"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "ropeline_booking_api_seconds",
			Help:    "Time to answer. route: pattern of the path without /v1, empty for none.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"route"}),
	}
	if r != nil {
		r.MustRegister(m.requests, m.took)
	}
	return m
}

func (m *metrics) answered(route string, status int, took time.Duration) {
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	m.took.WithLabelValues(route).Observe(took.Seconds())
}
