package booking

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	holds     *prometheus.HistogramVec
	losers    *prometheus.CounterVec
	batches   prometheus.Histogram
	expired   prometheus.Counter
	callbacks *prometheus.CounterVec
	late      prometheus.Histogram
	refunds   *prometheus.CounterVec
	broken    prometheus.Counter
	audit     prometheus.Gauge
	auditAt   prometheus.Gauge
	workers   *prometheus.CounterVec
	parts     prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		holds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "ropeline_booking_hold_seconds", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14),
			Help: "Time to decide a hold. outcome: held, replayed, taken, invalid, cap_reached, rate_limited, not_admitted, not_on_sale, hold_gone, key_reuse, no_event, busy, away, gone, error.",
		}, []string{"outcome"}),
		losers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ropeline_booking_losers_total", Help: "Holds refused because a seat was taken. by: table (from memory), gate (Redis), postgres.",
		}, []string{"by"}),
		batches: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "ropeline_booking_batch_holds", Buckets: prometheus.ExponentialBuckets(1, 2, 10), Help: "Holds that shared a transaction.",
		}),
		expired: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ropeline_booking_expired_total", Help: "Holds whose time ran out, as this node's sweeper found them.",
		}),
		callbacks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ropeline_booking_callbacks_total",
			Help: "Callbacks of payment providers. outcome: confirmed, late_refund, amount_mismatch, duplicate, declined, expired, refunded, ignored, not_genuine, unknown_payment, busy, away, error.",
		}, []string{"provider", "outcome"}),
		late: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "ropeline_booking_late_money_seconds", Buckets: []float64{1, 5, 15, 30, 60, 120, 300, 900, 3600, 86400},
			Help: "How long after the end of its hold money arrived, where it was late.",
		}),
		refunds: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ropeline_booking_refunds_total", Help: "Refunds. outcome: done, tried_again, failed.",
		}, []string{"outcome"}),
		broken: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ropeline_booking_broken_rules_total", Help: "Times that a rule of the schema stopped what a guard above it should have stopped.",
		}),
		audit: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "ropeline_booking_audit_findings", Help: "Broken rules that the last audit by this node found; 0 is well.",
		}),
		auditAt: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "ropeline_booking_audit_timestamp_seconds", Help: "When this node last finished an audit, in Unix time.",
		}),
		workers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ropeline_booking_worker_failures_total", Help: "Rounds of a worker that failed. worker: sweep, clock, close, reconcile, refund, partitions, audit, tidy.",
		}, []string{"worker"}),
		parts: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "ropeline_booking_partitions_ready", Help: "Empty partitions of the seat table that stand ready; 2 is well.",
		}),
	}
	for _, by := range []string{"table", "gate", "postgres"} {
		m.losers.WithLabelValues(by)
	}
	for _, outcome := range []string{"done", "tried_again", "failed"} {
		m.refunds.WithLabelValues(outcome)
	}
	if r != nil {
		r.MustRegister(m.holds, m.losers, m.batches, m.expired, m.callbacks, m.late, m.refunds, m.broken, m.audit, m.auditAt, m.workers, m.parts)
	}
	return m
}

func (m *metrics) hold(outcome string, took time.Duration) {
	m.holds.WithLabelValues(outcome).Observe(took.Seconds())
}
func (m *metrics) loser(by string)            { m.losers.WithLabelValues(by).Inc() }
func (m *metrics) batch(n int)                { m.batches.Observe(float64(n)) }
func (m *metrics) callback(p, outcome string) { m.callbacks.WithLabelValues(p, outcome).Inc() }
func (m *metrics) refund(outcome string)      { m.refunds.WithLabelValues(outcome).Inc() }

func (m *metrics) audited(n int) {
	m.audit.Set(float64(n))
	m.auditAt.SetToCurrentTime()
}

// reason is the word for an error in the metrics.
func reason(err error) string {
	for _, e := range []struct {
		err  error
		word string
	}{
		{ErrNotAdmitted, "not_admitted"}, {ErrNotOnSale, "not_on_sale"}, {ErrHoldGone, "hold_gone"}, {ErrKeyReuse, "key_reuse"},
		{ErrNoEvent, "no_event"}, {ErrBusy, "busy"}, {ErrAway, "away"}, {ErrUnknownPayment, "unknown_payment"},
		{context.Canceled, "gone"}, {context.DeadlineExceeded, "gone"},
	} {
		if errors.Is(err, e.err) {
			return e.word
		}
	}
	return "error"
}
