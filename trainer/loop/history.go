package loop

import (
	"math"

	"github.com/evenkeel/evenkeel/trainer"
)

// History keeps numbers of a training for its curves: of steps, of epochs and of evaluations. Give it
// steps with Add or, for Fit, with Progress:
//
//	h := loop.NewHistory(0)
//	opt.Progress = h.Progress
//	…
//	r, err := t.Evaluate(ctx, test)
//	h.Evaluated("test", r)
//
// Its memory is bounded: a track that is full drops every second record, and from then on keeps every
// second step. Add and Progress allocate nothing once a track has been full. A History is used
// by one goroutine at a time.
type History struct {
	points                     int
	steps, epochs, evaluations []*track
	latest                     int64 // number of the latest step
}

// Track is a list of records in the order of their steps.
type Track struct {
	Name    string   // objective of steps and epochs, "" if there is one; of evaluations the name of the data
	Records []Record // the History owns the memory, which its next call may overwrite
}

// Record is a step, or a mean over an epoch or an evaluation after it.
type Record struct {
	Step           int64   // number of the training step, Step.Number
	Loss, Accuracy float64 // as in Step; Accuracy is NaN if there is none
	Rate           float64 // learning rate of the step; of an evaluation NaN
	Norm           float64 // Step.Norm of the latest update; NaN before it, without norms, and of an evaluation
}

// defaultPoints is the length of a track if NewHistory is not given another one.
const defaultPoints = 2048

// NewHistory returns a history whose tracks have up to that many records, at least 2. 0 or less:
// 2048, which are 80 KiB for each track that becomes full.
func NewHistory(points int) *History {
	if points <= 0 {
		points = defaultPoints
	}
	return &History{points: max(points, 2)}
}

// Add adds a training step. A step whose number is not above those before it, after a restore, replaces
// them.
func (h *History) Add(s trainer.Step) {
	t := h.find(&h.steps, s.Objective)
	h.step(t, Record{s.Number, s.Loss, s.Accuracy, s.Rate, s.Norm})
	if s.Step == 1 || t.epoch != s.Epoch {
		t.epoch, t.weight, t.loss, t.hasAccuracy, t.correct = s.Epoch, 0, 0, 0, 0
	}
	if s.Weight > 0 && !math.IsNaN(s.Loss) && !math.IsInf(s.Loss, 0) { // as in the results of Fit
		t.weight += s.Weight
		t.loss += s.Loss * s.Weight
		if !math.IsNaN(s.Accuracy) {
			t.hasAccuracy += s.Weight
			t.correct += s.Accuracy * s.Weight
		}
	}
	if s.Step == s.Steps {
		h.find(&h.epochs, s.Objective).add(Record{s.Number, t.loss / t.weight, t.correct / t.hasAccuracy, s.Rate, t.norm}, h.points)
	}
}

// Progress adds a training step, as Options.Progress. It ignores steps of Evaluate.
func (h *History) Progress(p trainer.Progress) {
	if p.StepNumber == 0 {
		return
	}
	t := h.find(&h.steps, p.Objective)
	h.step(t, Record{p.StepNumber, p.StepLoss, p.StepAccuracy, p.StepRate, p.StepNorm})
	if p.Step == p.Steps {
		h.find(&h.epochs, p.Objective).add(Record{p.StepNumber, p.Loss, p.Accuracy, p.StepRate, t.norm}, h.points)
	}
}

// Evaluated adds the result of an evaluation after the latest step. data names the dataset, such as "test".
// With several objectives each has a track, with its name after that of the data.
func (h *History) Evaluated(data string, r trainer.Result) {
	nan := math.NaN()
	if len(r.Losses) < 2 {
		h.find(&h.evaluations, data).add(Record{h.latest, r.Loss, r.Accuracy, nan, nan}, h.points)
		return
	}
	for _, l := range r.Losses {
		h.find(&h.evaluations, data+" "+l.Name).add(Record{h.latest, l.Loss, nan, nan, nan}, h.points)
	}
}

// Steps returns the tracks of steps, one for each objective, in the order of their first steps.
func (h *History) Steps() []Track { return tracks(h.steps) }

// Epochs returns the tracks of epochs: means over the steps of an epoch, at its last step. Add takes the
// mean of those that it was given, Progress of all that the pass has trained.
func (h *History) Epochs() []Track { return tracks(h.epochs) }

// Evaluations returns the tracks of evaluations.
func (h *History) Evaluations() []Track { return tracks(h.evaluations) }

// track is a Track and what it needs to continue.
type track struct {
	name    string
	records []Record
	stride  int     // every stride-th record is kept
	until   int     // records that are still dropped before the next one is kept
	last    Record  // the latest one, kept or not
	norm    float64 // of the latest update
	// Sums over the steps of an epoch.
	epoch                              int
	weight, loss, hasAccuracy, correct float64
}

// find returns the track of a name.
func (h *History) find(all *[]*track, name string) *track {
	for _, t := range *all {
		if t.name == name {
			return t
		}
	}
	t := &track{name: name, stride: 1, norm: math.NaN()}
	*all = append(*all, t)
	return t
}

// step adds the record of a step.
func (h *History) step(t *track, r Record) {
	if r.Step <= h.latest {
		for _, all := range [...][]*track{h.steps, h.epochs, h.evaluations} {
			for _, other := range all {
				other.cut(r.Step)
			}
		}
	}
	h.latest = r.Step
	if !math.IsNaN(r.Norm) {
		t.norm = r.Norm
	}
	r.Norm = t.norm
	t.add(r, h.points)
}

// add keeps every stride-th record, at most points of them.
func (t *track) add(r Record, points int) {
	t.last = r
	if t.until > 0 {
		t.until--
		return
	}
	if len(t.records) == points {
		n := 0
		for i := 0; i < points; i += 2 {
			t.records[n] = t.records[i]
			n++
		}
		t.records = t.records[:n]
		t.stride *= 2
		if points%2 == 1 { // the last one is kept, stride/2 records ago
			t.until = t.stride/2 - 1
			return
		}
	}
	t.records = append(t.records, r)
	t.until = t.stride - 1
}

// cut removes the records of steps that are not before the given one.
func (t *track) cut(step int64) {
	n := len(t.records)
	for n > 0 && t.records[n-1].Step >= step {
		n--
	}
	if t.last.Step >= step {
		t.records, t.until, t.last = t.records[:n], 0, Record{}
		if n > 0 {
			t.last = t.records[n-1]
		}
	}
}

// tracks returns tracks for readers: with the latest record at the end, although it may be one that is
// not kept.
func tracks(all []*track) []Track {
	out := make([]Track, len(all))
	for i, t := range all {
		records := t.records
		if n := len(records); n > 0 && records[n-1].Step != t.last.Step {
			records = append(records[:n:n], t.last)
		}
		out[i] = Track{t.name, records}
	}
	return out
}
