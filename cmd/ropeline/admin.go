package main

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// nodeMetrics are the process's own measurements.
type nodeMetrics struct {
	reloads *prometheus.CounterVec
	last    prometheus.Gauge
	keys    prometheus.Gauge
}

func newNodeMetrics(r prometheus.Registerer) nodeMetrics {
	m := nodeMetrics{
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ropeline_config_reloads_total", Help: "Changed configuration files. result: ok, failed.",
		}, []string{"result"}),
		last: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "ropeline_config_last_reload_successful", Help: "1 if the file as it is now is in use, 0 if it is broken.",
		}),
	}
	m.keys = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "ropeline_keys_last_reload_successful", Help: "1 if the keys file as it is now is in use, 0 if it is broken or can't be read.",
	})
	m.keys.Set(1)
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "ropeline_build_info", Help: "1. version: of the program.", ConstLabels: prometheus.Labels{"version": versionText()},
	})
	info.Set(1)
	m.last.Set(1)
	r.MustRegister(m.reloads, m.last, m.keys, info)
	return m
}

func (m nodeMetrics) reloaded(ok bool) {
	if ok {
		m.reloads.WithLabelValues("ok").Inc()
		m.last.Set(1)
		return
	}
	m.reloads.WithLabelValues("failed").Inc()
	m.last.Set(0)
}

func (m nodeMetrics) keysRead(ok bool) {
	if ok {
		m.keys.Set(1)
		return
	}
	m.keys.Set(0)
}

// admin is the admin listener's handler. Nothing on it changes anything.
func (n *node) admin() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(n.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", n.ready)
	mux.HandleFunc("GET /admin/v1/rooms", n.listRooms)
	mux.HandleFunc("GET /admin/v1/booking", n.serveSales)
	return mux
}

// ready is 200 from when joins can be answered until the process drains. It stays so while Redis is away: admitted
// visitors are served without it.
func (n *node) ready(w http.ResponseWriter, _ *http.Request) {
	if !n.serving.Load() || n.draining.Load() {
		http.Error(w, "not serving", http.StatusServiceUnavailable)
		return
	}
	_, _ = w.Write([]byte("ready\n"))
}

// roomsView is the answer of GET /admin/v1/rooms.
type roomsView struct {
	Version string     `json:"version"`
	Redis   string     `json:"redis"`
	Config  configView `json:"config"`
	Rooms   []roomView `json:"rooms"`
}

type configView struct {
	Hash         string   `json:"hash"`
	LoadedAt     string   `json:"loadedAt,omitempty"`
	Error        string   `json:"error,omitempty"`     // what is wrong with the file as it is now
	KeysError    string   `json:"keysError,omitempty"` // what is wrong with the keys file as it is now
	NeedsRestart []string `json:"needsRestart"`        // keys changed in the file that wait for the next start
}

type roomView struct {
	ID          string  `json:"id"`
	Title       string  `json:"title"`
	State       string  `json:"state"` // before_opening open paused closed full; holding without Redis; unknown without a leader
	Reason      string  `json:"reason,omitempty"`
	Rate        float64 `json:"ratePerSecond"` // as the leader follows it
	ActiveLimit int     `json:"activeLimit"`
	Active      int     `json:"active"`
	Waiting     int     `json:"waiting"`
	Highest     int64   `json:"lastNumber"`
	Speed       float64 `json:"speedPerSecond"` // at which the line moves
	OpensAt     string  `json:"opensAt,omitempty"`
	AgeSeconds  float64 `json:"snapshotAgeSeconds"`
}

func (n *node) listRooms(w http.ResponseWriter, _ *http.Request) {
	cfg := n.cfg.Load()
	view := roomsView{Version: versionText(), Redis: "not connected yet", Rooms: []roomView{}, Config: configView{Hash: cfg.Hash(), NeedsRestart: []string{}}}
	if !n.serving.Load() {
		writeView(w, view)
		return
	}
	view.Redis = n.store.what
	if n.watcher != nil {
		status := n.watcher.Status()
		view.Config.Hash, view.Config.LoadedAt = status.Hash, status.LastLoaded.UTC().Format(time.RFC3339)
		if status.Err != nil {
			view.Config.Error = status.Err.Error()
		}
	}
	if bad := n.keysBad.Load(); bad != nil {
		view.Config.KeysError = *bad
	}
	if waits := n.restart.Load(); waits != nil && len(*waits) > 0 {
		view.Config.NeedsRestart = *waits
	}
	for _, rm := range n.liveRooms() {
		view.Rooms = append(view.Rooms, rm.view())
	}
	slices.SortFunc(view.Rooms, func(a, b roomView) int { return strings.Compare(a.ID, b.ID) })
	writeView(w, view)
}

func (rm *room) view() roomView {
	c := rm.cfg.Load()
	v := roomView{ID: c.ID, Title: c.Title, State: "unknown", Rate: float64(c.Rate), ActiveLimit: c.ActiveLimit, AgeSeconds: rm.line.Age().Seconds()}
	s := rm.line.Snapshot()
	if s == nil {
		return v
	}
	v.State, v.Reason, v.Rate, v.ActiveLimit = s.State(rm.line.Now()), s.Reason, s.Rate, s.Limit
	v.Active, v.Waiting, v.Highest, v.Speed = s.Active, s.Waiting, s.Highest, s.Speed
	if s.OpensAt > 0 {
		v.OpensAt = time.UnixMilli(s.OpensAt).UTC().Format(time.RFC3339)
	}
	if rm.line.Away() {
		v.State = "holding"
	}
	return v
}
