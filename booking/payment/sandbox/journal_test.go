package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ropeline/booking/payment"
	"ropeline/booking/payment/webhook"
)

func TestFile_KeepsMoneyAndCallbacksOverARestart(t *testing.T) {
	file, secret := filepath.Join(t.TempDir(), "sandbox.jsonl"), webhook.NewSecret()
	kept := func(cfg *ServerConfig) { cfg.File, cfg.Secret = file, secret }
	first := newStand(t, kept, func(cfg *ServerConfig) { cfg.CallbackURL = "" })
	o, unpaid := first.paid(t, OK), anOrder()
	first.started(t, unpaid)
	r := refundOf(o, 1000)
	if _, err := first.provider.Refund(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	// The shop was never reached; the process ends without a goodbye, in the middle of a line.
	torn, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := torn.WriteString(`{"payment":{"Order":`); err != nil {
		t.Fatal(err)
	}
	torn.Close()

	second := newStand(t, kept)
	got := map[payment.Kind]int{}
	for _, e := range second.events(t) {
		got[e.Kind]++
	}
	if got[payment.Paid] != 1 || got[payment.Refunded] != 1 || len(got) != 2 {
		t.Errorf("callbacks after the restart %v, want one paid and one refunded", got)
	}
	if e := second.look(t, o); e.Kind != payment.Paid || e.Amount != o.Amount {
		t.Errorf("Look = %+v", e)
	}
	if e := second.look(t, unpaid); e.Kind != payment.Pending {
		t.Errorf("Look at the unpaid page = %+v", e)
	}
	if _, err := second.provider.Refund(t.Context(), r); err != nil || second.Payments()[0].Returned() != 1000 {
		t.Errorf("the refund was made again: %v, %d", err, second.Payments()[0].Returned())
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}

	third := newStand(t, kept)
	if got := third.events(t); len(got) != 0 {
		t.Errorf("callbacks that were taken come again: %+v", got)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(raw), "\n"); lines != 2 {
		t.Errorf("a fresh file has %d lines, want one per payment:\n%s", lines, raw)
	}
	if strings.Contains(string(raw), secret) {
		t.Error("the secret is in the file")
	}
}

func TestFile_ThatIsNoneOfOursIsLeftAlone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "notes")
	if err := os.WriteFile(file, []byte("my notes\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := NewServer(ServerConfig{Secret: webhook.NewSecret(), File: file}); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("NewServer = %v", err)
	}
	if raw, _ := os.ReadFile(file); string(raw) != "my notes\n" {
		t.Errorf("the file now holds %q", raw)
	}
}
