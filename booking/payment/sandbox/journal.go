package sandbox

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
)

// journal is the file in which the server writes what happened, one line each, before anybody is told. A process that is
// killed loses nothing of it; a machine that loses power may. A nil one writes nothing.
type journal struct {
	file *os.File
	log  *slog.Logger
	err  error // the first; nothing is written after it
}

// line is one of the file: exactly one member is set.
type line struct {
	Payment *Payment `json:"payment,omitempty"` // its state from now on
	Event   *event   `json:"event,omitempty"`   // to be sent
	Told    string   `json:"told,omitempty"`    // an event that need not be sent again
}

func (j *journal) write(l line) {
	if j == nil || j.err != nil {
		return
	}
	raw, err := json.Marshal(l)
	if err == nil {
		_, err = j.file.Write(append(raw, '\n'))
	}
	if j.err = err; err != nil {
		j.log.Error("the sandbox's file is not written any more", "err", err)
	}
}

func (j *journal) event(e event)  { j.write(line{Event: &e}) }
func (j *journal) told(id string) { j.write(line{Told: id}) }

func (j *journal) close() error {
	if j == nil {
		return nil
	}
	return errors.Join(j.err, j.file.Close())
}

// record writes down the state of p. The caller has the lock.
func (s *Server) record(p *Payment) {
	s.journal.write(line{Payment: p})
}

// restore reads the file, if there is to be one, and returns the events that nobody acknowledged. It writes a fresh file
// without what is over.
func (s *Server) restore() ([]event, error) {
	if s.cfg.File == "" {
		return nil, nil
	}
	events, err := s.load()
	if err != nil {
		return nil, err
	}
	fresh := s.cfg.File + ".new"
	file, err := os.OpenFile(fresh, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	s.journal = &journal{file: file, log: s.log}
	for _, id := range s.ledger.order {
		s.record(s.ledger.payments[id])
	}
	for _, e := range events {
		s.journal.event(e)
	}
	if s.journal.err != nil {
		return nil, errors.Join(s.journal.err, file.Close())
	}
	if err := os.Rename(fresh, s.cfg.File); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return events, nil
}

// load fills the ledger from the file. A last line that was cut short is left out.
func (s *Server) load() ([]event, error) {
	file, err := os.Open(s.cfg.File)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var events []event
	told := map[string]bool{}
	in := bufio.NewReader(file)
	for n := 1; ; n++ {
		raw, end := in.ReadBytes('\n')
		if end != nil {
			return slices.DeleteFunc(events, func(e event) bool { return told[e.ID] }), nil
		}
		var l line
		if err := json.Unmarshal(raw, &l); err != nil {
			return nil, fmt.Errorf("%s line %d: %w", s.cfg.File, n, err)
		}
		switch {
		case l.Payment != nil:
			s.ledger.put(l.Payment)
		case l.Event != nil:
			events = append(events, *l.Event)
		case l.Told != "":
			told[l.Told] = true
		}
	}
}
