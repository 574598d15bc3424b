package runs

import "encoding/json"

// Event is an update of the page, as JSON.
type Event struct {
	Name string // "snapshot": all that the page shows; or "delta": what is new since the last event
	Data []byte
}

// eventBuffer is the number of updates that wait for a slow subscriber before it is dropped: the
// updates of some seconds.
const eventBuffer = 16

// Subscription receives the updates of a run.
type Subscription struct {
	run    *Run
	events chan Event
}

// Events returns the channel of updates, of which the first one is a snapshot. The others follow
// about every second. The channel is closed after Close of the run or the subscription, and if the
// subscriber is too slow: one that subscribes again has a snapshot again.
func (s *Subscription) Events() <-chan Event { return s.events }

// Close ends the subscription. It is safe to call twice.
func (s *Subscription) Close() {
	s.run.mu.Lock()
	defer s.run.mu.Unlock()
	s.run.drop(s)
}

// Subscribe returns a subscription to the updates of the run, whose Close the caller must call. After
// Close of the run its only event is a snapshot.
func (r *Run) Subscribe() *Subscription {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &Subscription{r, make(chan Event, eventBuffer)}
	r.subscribers[s] = true
	r.send(s, r.snapshot())
	if r.state.Status == Ended {
		r.drop(s)
	}
	return s
}

// drop ends a subscription. r.mu is held.
func (r *Run) drop(s *Subscription) {
	if r.subscribers[s] {
		delete(r.subscribers, s)
		close(s.events)
	}
}

// send sends an event, or drops a subscriber that is too slow. r.mu is held.
func (r *Run) send(s *Subscription, e Event) {
	select {
	case s.events <- e:
	default:
		r.drop(s)
	}
}

// snapshot returns all that the page shows. r.mu is held.
func (r *Run) snapshot() Event { return event("snapshot", []*view{r.view()}) }

// event returns an event with data. Its types always have a form in JSON.
func event(name string, data any) Event {
	b, err := json.Marshal(data)
	if err != nil {
		panic(err)
	}
	return Event{name, b}
}

// delta is what is new on the page.
type delta struct {
	State  State   `json:"state"`
	Points []added `json:"points"`
}

// added are new points of a series.
type added struct {
	Chart  string  `json:"chart"`
	Series string  `json:"series"`
	Style  style   `json:"style"`
	Points []point `json:"points"`
}

// publish sends what is new to all subscribers. r.mu is held.
func (r *Run) publish() {
	if len(r.subscribers) > 0 {
		e := r.snapshotOrDelta()
		for s := range r.subscribers {
			r.send(s, e)
		}
	}
	r.cut = false
	for _, c := range r.charts {
		for _, s := range c.Series {
			s.added = 0
		}
	}
}

// snapshotOrDelta returns the new points, or everything if points were lost. r.mu is held.
func (r *Run) snapshotOrDelta() Event {
	if r.cut {
		return r.snapshot()
	}
	d := delta{State: r.now(), Points: []added{}}
	for _, c := range r.charts {
		for _, s := range c.Series {
			if s.added > 0 {
				d.Points = append(d.Points, added{c.ID, s.Name, s.Style, s.points[len(s.points)-s.added:]})
			}
		}
	}
	return event("delta", d)
}
