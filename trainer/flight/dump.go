package flight

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
)

// Dump writes the recorded steps and the owners of the memory as text, and why, each on one line: a new
// line in a text becomes "; ". It does not touch the trainer, so that it may be called whatever that does.
func (r *Recorder) Dump(w io.Writer, cause string) error {
	records, owners, total := r.snapshot()
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "flight recorder: %s\n%d steps, the last %d:\n", oneLine(cause), total, len(records))
	fmt.Fprintf(b, "%8s %7s %5s %5s %9s %9s %8s %6s %13s %11s %11s  %s\n", "s", "number", "epoch", "step", "loss", "norm", "rate",
		"waited", "arena", "pinned", "host", "objective")
	for _, s := range records {
		fmt.Fprintf(b, "%8.3f %7d %5d %5d %9.5g %9.4g %8.3g %6s %13d %11d %11d  %s\n", s.At.Seconds(), s.Number, s.Epoch, s.Step, s.Loss,
			s.Norm, s.Rate, s.Waited.Round(time.Millisecond), s.Arena, s.Pinned, s.Host, oneLine(s.Objective))
	}
	if len(owners) > 0 {
		fmt.Fprintf(b, "owners of device memory, bytes:\n")
	}
	for _, o := range owners {
		if o.Layer == "" {
			o.Layer = "(no layer)"
		}
		fmt.Fprintf(b, "%14d  %s\n", o.Bytes, oneLine(o.Layer))
	}
	return b.Flush()
}

// oneLine returns a text without line breaks.
func oneLine(text string) string {
	return strings.NewReplacer("\r\n", "; ", "\n", "; ", "\r", "; ").Replace(strings.TrimRight(text, "\r\n"))
}

// JSON writes the same as Dump as one JSON object with the fields cause, steps, records and owners.
// Numbers that JSON lacks, such as NaN, are null.
func (r *Recorder) JSON(w io.Writer, cause string) error {
	records, owners, total := r.snapshot()
	dump := jsonDump{Cause: cause, Steps: total, Records: make([]jsonRecord, len(records)), Owners: owners}
	for i, s := range records {
		dump.Records[i] = jsonRecord{s.At.Seconds(), s.Objective, s.Number, s.Epoch, s.Step, finite(s.Loss), finite(s.Norm), finite(s.Rate),
			s.Waited.Seconds(), s.Arena, s.Pinned, s.Host, s.Uploaded}
	}
	return json.NewEncoder(w).Encode(dump)
}

// jsonDump is the object of JSON.
type jsonDump struct {
	Cause   string       `json:"cause"`
	Steps   int64        `json:"steps"` // ever recorded
	Records []jsonRecord `json:"records"`
	Owners  []Owner      `json:"owners"`
}

// jsonRecord is a Record with the names and units of JSON.
type jsonRecord struct {
	At        float64  `json:"seconds"`
	Objective string   `json:"objective,omitempty"`
	Number    int64    `json:"number"`
	Epoch     int      `json:"epoch"`
	Step      int      `json:"step"`
	Loss      *float64 `json:"loss"`
	Norm      *float64 `json:"norm"`
	Rate      *float64 `json:"rate"`
	Waited    float64  `json:"waited_seconds"`
	Arena     int64    `json:"arena_bytes"`
	Pinned    int64    `json:"pinned_bytes"`
	Host      int64    `json:"host_bytes"`
	Uploaded  int64    `json:"uploaded_bytes"`
}

// finite returns v, nil if it is not finite.
func finite(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// snapshot returns what is dumped.
func (r *Recorder) snapshot() (records []Record, owners []Owner, total int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.records(), r.owners, r.total
}
