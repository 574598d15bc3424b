// Package profile holds measurements of training steps: what a device did when, what each layer and
// operation cost, and how much of the copying and of the sums over ranks overlapped compute.
//
// trainer.Trainer.Profile makes a [Profile]. Its fields are the tables as data, String prints them,
// and WriteTrace writes everything as a trace that Perfetto and Chrome read.
package profile

import (
	"cmp"
	"slices"
	"time"

	"github.com/evenkeel/evenkeel/dataloader"
)

// Kind is what an event is about.
type Kind uint8

// The kinds. Events of the first three are the device's time: the tables have a row for each.
const (
	Compute Kind = iota // a call of a program
	Copy                // a copy or fill: of samples, results, offloaded tensors
	Wait                // a call that waits for the other ranks of a group
	Sum                 // a sum over the ranks, from its start until it is complete
	Worker              // the part of one worker in a call
	Fetch               // a worker of the loader fetches rows
	Slot                // the state of a slot
)

// Event is something that took some time.
type Event struct {
	Kind    Kind
	Process string // of the track: "device" or "host"
	Track   string // such as "compute" or "loader 2"; its events do not overlap, except those of Sum
	Name    string
	Layer   string // that the work belongs to; "" for the host's
	Op      string // operation; "" for the host's
	Step    int    // of the epoch, from 1
	Flops   int64  // floating-point operations
	Bytes   int64  // read and written, or copied

	Begin, End time.Duration // since the profile began
}

// time returns how long e took.
func (e *Event) time() time.Duration { return e.End - e.Begin }

// Peak is what the device can do at most, as measured on it; see trainer.Trainer.Profile.
type Peak struct {
	Flops float64 // floating-point operations a second, of products of float32
	Bytes float64 // bytes read and written a second in the device's memory
	Bus   float64 // bytes copied a second between the host's memory and the device's
}

// ideal returns how long e takes at the peak: the longer one of its arithmetic and its memory
// traffic; that of a copy is its way over the bus.
func (p Peak) ideal(e *Event) time.Duration {
	var seconds float64
	switch e.Kind {
	case Compute:
		seconds = max(over(e.Flops, p.Flops), over(e.Bytes, p.Bytes))
	case Copy:
		seconds = over(e.Bytes, p.Bus)
	}
	return time.Duration(seconds * float64(time.Second))
}

// over returns n/rate, 0 if the rate is unknown.
func over(n int64, rate float64) float64 {
	if rate <= 0 {
		return 0
	}
	return float64(n) / rate
}

// Cost is what one layer or operation took, the sum over all steps of a profile.
type Cost struct {
	Name  string
	Calls int
	Time  time.Duration
	Ideal time.Duration // at the peak
	Flops int64         // floating-point operations
	Bytes int64         // read and written
}

// FlopRate returns the floating-point operations a second.
func (c Cost) FlopRate() float64 { return rate(c.Flops, c.Time) }

// ByteRate returns the bytes read and written a second.
func (c Cost) ByteRate() float64 { return rate(c.Bytes, c.Time) }

// Roofline returns the share of the device's peak that was reached: Ideal/Time. It is above 1 where
// operands lie in a cache that is faster than the memory.
func (c Cost) Roofline() float64 { return ratio(c.Ideal, c.Time) }

// rate returns n a second.
func rate(n int64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

// ratio returns a/b, 0 if b is 0.
func ratio(a, b time.Duration) float64 {
	if b <= 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// add adds an event.
func (c *Cost) add(e *Event, peak Peak) {
	c.Calls++
	c.Time += e.time()
	c.Ideal += peak.ideal(e)
	c.Flops += e.Flops
	c.Bytes += e.Bytes
}

// Overlap is how much of some work ran at the same time as compute.
type Overlap struct {
	Total  time.Duration // in which at least one piece of the work was in progress
	Hidden time.Duration // of it, in which a call computed
}

// Share returns Hidden/Total, 0 to 1; 0 if there was no such work.
func (o Overlap) Share() float64 { return ratio(o.Hidden, o.Total) }

// Profile is a measurement of some training steps.
type Profile struct {
	Device  string
	Steps   int           // batches
	Elapsed time.Duration // from the first work of the device to the end of the last step
	Busy    time.Duration // of it, in which the device computed, copied or waited for other ranks
	Compute time.Duration // of it, in which a call computed
	Copies  Overlap       // of samples, results and offloaded tensors
	Sums    Overlap       // over the ranks of a group
	Input   dataloader.Stalls
	Peak    Peak
	// Layers and Operations are the time of the device by layer and by operation, the longest first.
	// Each adds up to Total.
	Layers, Operations []Cost
	Total              Cost
	Events             []Event // by Begin
}

// New computes a profile of steps on a device from events, whose order does not matter.
func New(device string, steps int, peak Peak, events []Event) *Profile {
	p := &Profile{Device: device, Steps: steps, Peak: peak, Events: events, Total: Cost{Name: "total"}}
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Or(cmp.Compare(a.Begin, b.Begin), cmp.Compare(b.End, a.End)) })
	layers, operations := table{}, table{}
	var compute, copies, sums, busy []interval
	for i := range events {
		e := &events[i]
		at := interval{e.Begin, e.End}
		switch e.Kind {
		case Compute:
			compute = append(compute, at)
		case Copy:
			copies = append(copies, at)
		case Sum:
			sums = append(sums, at)
			continue
		case Wait:
		default:
			continue
		}
		busy = append(busy, at)
		layers.add(e.Layer, e, peak)
		operations.add(e.Op, e, peak)
		p.Total.add(e, peak)
	}
	p.Layers, p.Operations = layers.sorted(), operations.sorted()
	compute, copies, sums, busy = union(compute), union(copies), union(sums), union(busy)
	p.Compute, p.Busy = length(compute), length(busy)
	p.Copies = Overlap{length(copies), common(copies, compute)}
	p.Sums = Overlap{length(sums), common(sums, compute)}
	if n := len(busy); n > 0 {
		p.Elapsed = busy[n-1].end - busy[0].begin
	}
	return p
}

// table collects costs by name.
type table struct {
	index map[string]int
	rows  []Cost
}

func (t *table) add(name string, e *Event, peak Peak) {
	i, ok := t.index[name]
	if !ok {
		if t.index == nil {
			t.index = make(map[string]int)
		}
		i = len(t.rows)
		t.index[name], t.rows = i, append(t.rows, Cost{Name: name})
	}
	t.rows[i].add(e, peak)
}

// sorted returns the rows, the longest time first.
func (t *table) sorted() []Cost {
	slices.SortStableFunc(t.rows, func(a, b Cost) int { return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.Name, b.Name)) })
	return t.rows
}
