package outbox

import "github.com/prometheus/client_golang/prometheus"

// metrics of the relay of a node. The gauges are about the whole table: of several nodes, take the largest.
type metrics struct {
	pending, oldest, stuck prometheus.Gauge
	published              *prometheus.CounterVec
	failures               prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		pending: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "ropeline_booking_outbox_pending", Help: "Events in the outbox, as this node counted them last; an estimate above 100,000.",
		}),
		oldest: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "ropeline_booking_outbox_oldest_seconds", Help: "Age of the oldest event in the outbox; 0 if it is empty.",
		}),
		stuck: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "ropeline_booking_outbox_stuck", Help: "Events that the broker refuses for good; their keys wait behind them.",
		}),
		published: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ropeline_booking_outbox_published_total", Help: "Events that the broker acknowledged to this node. topic: booking-events, ticket-issued, inventory-changed.",
		}, []string{"topic"}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ropeline_booking_outbox_failures_total", Help: "Attempts of this node to reach the broker that failed.",
		}),
	}
	if r != nil {
		r.MustRegister(m.pending, m.oldest, m.stuck, m.published, m.failures)
	}
	return m
}

func (m *metrics) publish(rows []row) {
	for i := range rows {
		m.published.WithLabelValues(rows[i].Topic).Inc()
	}
}

func (m *metrics) measure(b Backlog) {
	m.pending.Set(float64(b.Pending))
	m.oldest.Set(b.Oldest.Seconds())
	m.stuck.Set(float64(b.Stuck))
}
