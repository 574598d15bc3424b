package profile

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"time"
)

// record is an event in Chrome's trace format: "Trace Event Format", of the Chromium project.
type record struct {
	Name  string   `json:"name"`
	Cat   string   `json:"cat,omitempty"`
	Phase string   `json:"ph"`
	ID    int      `json:"id,omitempty"`
	PID   int      `json:"pid"`
	TID   int      `json:"tid"`
	Time  float64  `json:"ts"`            // µs
	Dur   *float64 `json:"dur,omitempty"` // µs
	Args  *args    `json:"args,omitempty"`
}

// args are the details of a record.
type args struct {
	Name     string  `json:"name,omitempty"` // of a process or track
	Sort     *int    `json:"sort_index,omitempty"`
	Step     int     `json:"step,omitempty"`
	Layer    string  `json:"layer,omitempty"`
	Op       string  `json:"op,omitempty"`
	Flops    int64   `json:"flops,omitempty"`
	Bytes    int64   `json:"bytes,omitempty"`
	FlopRate float64 `json:"GFLOP/s,omitempty"`
	ByteRate float64 `json:"GB/s,omitempty"`
	Roofline float64 `json:"roofline %,omitempty"`
}

// categories are the names of kinds, which a viewer can filter by.
var categories = [...]string{Compute: "compute", Copy: "copy", Wait: "wait", Sum: "sum", Worker: "worker", Fetch: "loader", Slot: "slot"}

// WriteTrace writes all events in Chrome's JSON format, which ui.perfetto.dev, Perfetto's
// trace_processor and chrome://tracing open. It writes event by event, and returns the first error
// of w.
func (p *Profile) WriteTrace(w io.Writer) error {
	b := bufio.NewWriter(w)
	t := tracer{w: b, peak: p.Peak, pids: make(map[string]int), tids: make(map[[2]string]int)}
	if _, err := b.WriteString(`{"displayTimeUnit":"ms","traceEvents":[`); err != nil {
		return err
	}
	for i := range p.Events {
		if err := t.event(&p.Events[i], p.Device); err != nil {
			return fmt.Errorf("trace: %w", err)
		}
	}
	if _, err := b.WriteString("\n]}\n"); err != nil {
		return err
	}
	return b.Flush()
}

// tracer writes records.
type tracer struct {
	w       *bufio.Writer
	peak    Peak
	written int
	sums    int
	pids    map[string]int
	tids    map[[2]string]int
}

// write writes a record.
func (t *tracer) write(r record) error {
	if t.written++; t.written > 1 {
		if err := t.w.WriteByte(','); err != nil {
			return err
		}
	}
	if err := t.w.WriteByte('\n'); err != nil {
		return err
	}
	b, err := json.Marshal(r)
	if err == nil {
		_, err = t.w.Write(b)
	}
	return err
}

// place returns the numbers of a track, whose names it writes once. A process of the device bears the
// device's name.
func (t *tracer) place(e *Event, device string) (pid, tid int, err error) {
	pid, ok := t.pids[e.Process]
	if !ok {
		pid = len(t.pids) + 1
		t.pids[e.Process] = pid
		name := e.Process
		if name == "device" {
			name += " " + device
		}
		if err := t.write(record{Name: "process_name", Phase: "M", PID: pid, Args: &args{Name: name}}); err != nil {
			return 0, 0, err
		}
	}
	key := [2]string{e.Process, e.Track}
	tid, ok = t.tids[key]
	if !ok {
		tid = len(t.tids) + 1
		t.tids[key] = tid
		err = t.write(record{Name: "thread_name", Phase: "M", PID: pid, TID: tid, Args: &args{Name: e.Track}})
	}
	return pid, tid, err
}

// event writes an event: as one record, or a sum as two, since sums overlap.
func (t *tracer) event(e *Event, device string) error {
	pid, tid, err := t.place(e, device)
	if err != nil {
		return err
	}
	a := &args{Step: e.Step, Layer: e.Layer, Op: e.Op, Flops: e.Flops, Bytes: e.Bytes}
	if d := e.time(); d > 0 && e.Kind <= Sum {
		a.FlopRate, a.ByteRate = digits(rate(e.Flops, d)/1e9), digits(rate(e.Bytes, d)/1e9)
		a.Roofline = digits(100 * ratio(t.peak.ideal(e), d))
	}
	r := record{Name: e.Name, Cat: categories[e.Kind], PID: pid, TID: tid, Time: micros(e.Begin), Args: a}
	if e.Kind != Sum {
		d := micros(e.End) - r.Time
		r.Phase, r.Dur = "X", &d
		return t.write(r)
	}
	t.sums++
	r.Phase, r.ID = "b", t.sums
	if err := t.write(r); err != nil {
		return err
	}
	r.Phase, r.Time, r.Args = "e", micros(e.End), nil
	return t.write(r)
}

// micros returns d in µs.
func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// digits rounds v to two decimals.
func digits(v float64) float64 { return math.Round(100*v) / 100 }
