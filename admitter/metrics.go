package admitter

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the measurements of all admitters of a node.
type Metrics struct {
	admitted, skipped, leases *prometheus.CounterVec
	leader                    *prometheus.GaugeVec
	ticks                     prometheus.Histogram
}

// NewMetrics registers them with r; nil registers nothing.
func NewMetrics(r prometheus.Registerer) *Metrics {
	room := []string{"room"}
	m := &Metrics{
		admitted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ropeline_admitter_admitted_total", Help: "Visitors admitted in batches by this node as leader.",
		}, room),
		skipped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ropeline_admitter_skipped_total", Help: "Absent visitors passed over at their turn by this node as leader.",
		}, room),
		leases: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ropeline_admitter_lease_changes_total", Help: "Leases that this node has taken or lost.",
		}, room),
		leader: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "ropeline_admitter_leader", Help: "1 while this node leads the room.",
		}, room),
		ticks: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "ropeline_admitter_tick_seconds", Help: "Time of one tick of a leader, from look to publish.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5},
		}),
	}
	if r != nil {
		r.MustRegister(m.admitted, m.skipped, m.leases, m.leader, m.ticks)
	}
	return m
}

func (m *Metrics) moved(room string, done moved) {
	m.admitted.WithLabelValues(room).Add(float64(done.admitted))
	m.skipped.WithLabelValues(room).Add(float64(done.absent))
}

func (m *Metrics) tick(took time.Duration) { m.ticks.Observe(took.Seconds()) }

func (m *Metrics) leads(room string, is bool) {
	m.leases.WithLabelValues(room).Inc()
	value := 0.0
	if is {
		value = 1
	}
	m.leader.WithLabelValues(room).Set(value)
}

// forget drops the gauge of a room that this node serves no more.
func (m *Metrics) forget(room string) { m.leader.DeleteLabelValues(room) }
