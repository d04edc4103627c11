package gate

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	calls   *prometheus.HistogramVec
	errors  *prometheus.CounterVec
	refused prometheus.Counter
	limited *prometheus.CounterVec
	open    prometheus.Gauge
	owed    prometheus.Gauge
}

// newMetrics registers them with r; nil registers nothing.
func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "ropeline_booking_gate_call_seconds",
			Help:    "Time of one call of the gate to Redis. op: take, keep, drop, sold, allow.",
			Buckets: []float64{.0002, .0005, .001, .002, .005, .01, .02, .05, .1},
		}, []string{"op"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ropeline_booking_gate_errors_total",
			Help: "Calls of the gate that Redis failed or that were not made because it is away. op: as in ropeline_booking_gate_call_seconds.",
		}, []string{"op"}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ropeline_booking_gate_refused_total", Help: "Holds that the gate turned away because another hold has a seat.",
		}),
		limited: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ropeline_booking_gate_limited_total",
			Help: "Holds turned away because their customer tried too often. by: redis, node (counted on this node while Redis is away).",
		}, []string{"by"}),
		open: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "ropeline_booking_gate_open_events", Help: "Events whose last call to Redis got no answer; their holds go straight to Postgres.",
		}),
		owed: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "ropeline_booking_gate_owed_drops", Help: "Removals of marks that wait for Redis to answer again.",
		}),
	}
	if r != nil {
		r.MustRegister(m.calls, m.errors, m.refused, m.limited, m.open, m.owed)
	}
	return m
}
