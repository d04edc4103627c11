package seed

import (
	"bytes"
	"errors"
	"io"

	"go.yaml.in/yaml/v3"
)

// Plan is what a seed file says, checked and complete. It must not be changed.
type Plan struct {
	Halls  []Hall
	Events []Event
}

// Parse reads a seed file. Its error is a [Problems] that names everything that is wrong.
func Parse(data []byte) (*Plan, error) {
	f := &file{}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := decoder.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return nil, Problems{{Key: "file", Message: "is not YAML: " + err.Error()}}
	}
	if err := decoder.Decode(&second); err == nil {
		return nil, Problems{{Key: "file", Message: "holds a second YAML document, only one is allowed", Line: second.Line}}
	}
	if len(doc.Content) == 0 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, Problems{{Key: "file", Message: "is a group of the keys halls and events"}}
	}
	root := node{Node: doc.Content[0], file: f}
	p := &Plan{}
	var halls, events node
	root.fields(map[string]func(node){
		"halls":  func(v node) { halls = v },
		"events": func(v node) { events = v },
	})
	if halls.Node == nil || events.Node == nil {
		f.problems = append(f.problems, Problem{Key: "file", Message: "needs the keys halls and events"})
		return nil, f.problems.err()
	}
	p.readHalls(halls)
	p.readEvents(events)
	if err := f.problems.err(); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *Plan) readHalls(n node) {
	seen := map[int64]bool{}
	n.each(func(v node) {
		h := hall(v)
		if seen[h.ID] && h.ID != 0 {
			v.wrong("id %d is there twice", h.ID)
			return
		}
		seen[h.ID] = true
		p.Halls = append(p.Halls, h)
	})
}

func (p *Plan) readEvents(n node) {
	halls := map[int64]*Hall{}
	for i := range p.Halls {
		halls[p.Halls[i].ID] = &p.Halls[i]
	}
	seen := map[int64]bool{}
	n.each(func(v node) {
		e := event(v, halls)
		if seen[e.ID] && e.ID != 0 {
			v.wrong("id %d is there twice", e.ID)
			return
		}
		seen[e.ID] = true
		p.Events = append(p.Events, e)
	})
}

// hall is the hall of an event.
func (p *Plan) hall(id int64) *Hall {
	for i := range p.Halls {
		if p.Halls[i].ID == id {
			return &p.Halls[i]
		}
	}
	return nil
}
