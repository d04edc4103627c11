package queue

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the measurements of all lines of a node.
type Metrics struct {
	calls   *prometheus.HistogramVec
	errors  *prometheus.CounterVec
	batch   prometheus.Histogram
	waiting *prometheus.GaugeVec
	active  *prometheus.GaugeVec
	limit   *prometheus.GaugeVec
	rate    *prometheus.GaugeVec
	age     *prometheus.GaugeVec
}

// NewMetrics registers them with r; nil registers nothing.
func NewMetrics(r prometheus.Registerer) *Metrics {
	room := []string{"room"}
	m := &Metrics{
		calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "ropeline_queue_redis_call_seconds",
			Help:    "Time of one script call to Redis. op: open, join, leave, renew, lead, resign, look, admit, publish, read, here, and the readings heads, presence, marks, who, ended.",
			Buckets: []float64{.0005, .001, .002, .005, .01, .025, .05, .1, .25, .5, 1, 2},
		}, []string{"op"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ropeline_queue_redis_errors_total",
			Help: "Script calls to Redis that failed or were refused. op: as in ropeline_queue_redis_call_seconds.",
		}, []string{"op"}),
		batch: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "ropeline_queue_batch_visits", Help: "Visits (joins and claims) in one batch sent to Redis.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 10),
		}),
		waiting: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "ropeline_queue_waiting_visitors", Help: "Length of a room's line, from the snapshot.",
		}, room),
		active: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "ropeline_queue_active_visitors", Help: "Admitted visitors whose session has not ended, from the snapshot.",
		}, room),
		limit: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "ropeline_queue_active_limit_visitors", Help: "Active limit that the leader follows.",
		}, room),
		rate: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "ropeline_queue_admission_rate_per_second", Help: "Admission rate that the leader follows.",
		}, room),
		age: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "ropeline_queue_snapshot_age_seconds", Help: "Age of a room's snapshot; it grows while Redis is away or nobody leads.",
		}, room),
	}
	if r != nil {
		r.MustRegister(m.calls, m.errors, m.batch, m.waiting, m.active, m.limit, m.rate, m.age)
	}
	return m
}

func (m *Metrics) observe(op string, took time.Duration, err error) {
	m.calls.WithLabelValues(op).Observe(took.Seconds())
	if refusal(err) != nil {
		m.errors.WithLabelValues(op).Inc()
	}
}

func (m *Metrics) batched(visits int) { m.batch.Observe(float64(visits)) }

func (m *Metrics) see(l *Line) {
	s := l.Snapshot()
	if s == nil {
		return
	}
	m.waiting.WithLabelValues(l.room).Set(float64(s.Waiting))
	m.active.WithLabelValues(l.room).Set(float64(s.Active))
	m.limit.WithLabelValues(l.room).Set(float64(s.Limit))
	m.rate.WithLabelValues(l.room).Set(s.Rate)
}

// aged is told also when Redis did not answer.
func (m *Metrics) aged(l *Line) { m.age.WithLabelValues(l.room).Set(l.Age().Seconds()) }

// forget drops the series of a room that this node serves no more.
func (m *Metrics) forget(room string) {
	for _, g := range []*prometheus.GaugeVec{m.waiting, m.active, m.limit, m.rate, m.age} {
		g.DeleteLabelValues(room)
	}
}
