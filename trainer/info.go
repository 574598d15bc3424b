package trainer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// InfoVersion is the version of Info that this package writes. It reads this one only.
const InfoVersion = 1

// Info holds the numbers of a State: all of it but the tensors. It is plain data, which
// encoding/json writes and reads without loss.
type Info struct {
	Version  int      `json:"version"`  // InfoVersion
	Device   string   `json:"device"`   // name of the device
	Plan     string   `json:"plan"`     // fingerprint of the memory plan, in hexadecimal digits
	Position Position `json:"position"` // where training goes on

	Epochs        int                `json:"epochs"`                   // epochs that were begun
	Steps         int64              `json:"steps"`                    // training steps that were finished
	UpdatesBefore int64              `json:"updates_before,omitempty"` // updates before the last Unfreeze
	Stage         int                `json:"stage,omitempty"`          // stages of Options.Unfreeze that are unfrozen
	Objectives    []ObjectiveInfo    `json:"objectives"`               // in the model's order
	LossScale     optim.ScalingState `json:"loss_scale,omitzero"`      // zero: the loss is not scaled
	Schedules     []ScheduleInfo     `json:"schedules,omitempty"`      // states of schedules that have one
	Seed          uint64             `json:"seed"`                     // Options.Seed
	Order         uint64             `json:"order,omitempty"`          // RestoreOptions.Order of the last restore that set it
	RateFactor    float64            `json:"rate_factor"`              // product of all RestoreOptions.RateFactor

	Data     *DataInfo    `json:"data,omitempty"`    // of the last epoch that was begun; nil: unknown
	Epoch    *EpochInfo   `json:"epoch,omitempty"`   // of the unfinished epoch; nil at the start of an epoch
	Windows  []WindowInfo `json:"windows,omitempty"` // unfinished windows of Trainer.Step
	Settings []Setting    `json:"settings"`          // the options that a restore compares
}

// Position is a place between two training steps.
type Position struct {
	Epoch int `json:"epoch"` // number of the epoch, counted from 0
	Step  int `json:"step"`  // batches of the epoch that are finished: the next one has this index
	// Objective is the one whose step on the batch is next, if the batch has had steps of others;
	// "": the batch is new.
	Objective string `json:"objective,omitempty"`
}

// ObjectiveInfo holds the counters of an objective.
type ObjectiveInfo struct {
	Name    string `json:"name"`    // "" if the model has Model.Loss
	Updates int64  `json:"updates"` // since New or Unfreeze
	// NonFinite is the number of its last steps that Options.SkipNonFinite skipped, in a row.
	NonFinite int `json:"nonfinite,omitempty"`
}

// ScheduleInfo is the state of a schedule that implements optim.Stateful.
type ScheduleInfo struct {
	Objective string          `json:"objective"` // whose schedule it is or contains; "" for Options.Schedule
	Index     int             `json:"index"`     // among those of the objective
	State     json.RawMessage `json:"state"`
}

// EpochInfo holds the sums of an unfinished epoch, from which its Result continues, and what
// identifies its data.
type EpochInfo struct {
	Steps    int        `json:"steps"`   // batches of the whole epoch
	Samples  int        `json:"samples"` // of the batches that are finished
	Uploaded int64      `json:"uploaded"`
	Correct  Number     `json:"correct"`
	Metrics  []Number   `json:"metrics,omitempty"` // sums of metrics, one after the other
	Sums     []SumsInfo `json:"sums"`              // by objective
	// StepsSince and UpdatesSince are minus the numbers of steps and updates of the epoch.
	StepsSince   int64    `json:"steps_since"`
	UpdatesSince []int64  `json:"updates_since"`
	Data         DataInfo `json:"data"`
}

// SumsInfo holds the sums of an objective in an unfinished epoch.
type SumsInfo struct {
	Loss      Number `json:"loss"`
	Weight    Number `json:"weight"`
	Steps     int    `json:"steps"`
	Skipped   int64  `json:"skipped,omitempty"`
	NonFinite int64  `json:"nonfinite,omitempty"`
	Lost      bool   `json:"lost,omitempty"` // its window has had a step that was skipped
}

// WindowInfo is an unfinished window of Trainer.Step.
type WindowInfo struct {
	Objective string `json:"objective"`
	Steps     int    `json:"steps"` // of the window, finished
	Lost      bool   `json:"lost,omitempty"`
}

// DataInfo identifies a dataset by its length, its fields and its fingerprint.
type DataInfo struct {
	Samples int      `json:"samples"`
	Fields  []string `json:"fields"` // as "x float32 [4]"
	// Fingerprint is that of dataloader.Fingerprint, in hexadecimal digits; "" if the
	// dataset is no dataloader.Fingerprinter: then length and fields alone are compared.
	Fingerprint string `json:"fingerprint,omitempty"`
}

// Setting is an option as text.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Number is a float64 that JSON can hold also if it is not finite: as "NaN", "+Inf" or "-Inf".
type Number float64

// MarshalJSON implements json.Marshaler.
func (n Number) MarshalJSON() ([]byte, error) {
	if finite(float64(n)) {
		return json.Marshal(float64(n))
	}
	return json.Marshal(strconv.FormatFloat(float64(n), 'g', -1, 64))
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *Number) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return json.Unmarshal(b, (*float64)(n))
	}
	f, err := strconv.ParseFloat(s, 64)
	*n = Number(f)
	return err
}

// numbersOf returns x as Numbers.
func numbersOf(x []float64) []Number {
	if x == nil {
		return nil
	}
	all := make([]Number, len(x))
	for i, v := range x {
		all[i] = Number(v)
	}
	return all
}

// withinWindow reports whether gradients of an unfinished window of that many steps are part of the
// state.
func (i *Info) withinWindow(window int) bool {
	if window <= 1 {
		return false
	}
	return i.Epoch != nil && (i.Position.Step%window != 0 || i.Position.Objective != "") || len(i.Windows) > 0
}

// Position returns the place where the next Fit or Steps begins: at step 0 of the next epoch,
// except after Restore. It may be called at any time; after Close it is the last one.
func (t *Trainer) Position() Position {
	if t == nil || t.plan == nil {
		return Position{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if u := t.unfinished; u != nil {
		return u.position
	}
	return Position{Epoch: t.counters.epochs}
}

// stateInfo returns the numbers of the state between two steps. p is the pass of training that runs
// or is paused, or nil. The caller has the device.
func (t *Trainer) stateInfo(p *epochPass) (Info, error) {
	plan := t.plan
	i := Info{Version: InfoVersion, Device: plan.opt.Device.Name(), Plan: t.captures.fingerprint, Seed: plan.opt.Seed,
		Stage: plan.stage, Settings: t.captures.settings}
	var err error
	if i.Schedules, err = plan.scheduleStates(); err != nil {
		return i, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	c := &t.counters
	i.Epochs, i.Steps, i.UpdatesBefore, i.LossScale = c.epochs, c.steps, c.before, c.scaling
	i.Order, i.RateFactor, i.Data = c.order, c.rateFactor, c.data
	for k, o := range plan.info.objectives {
		i.Objectives = append(i.Objectives, ObjectiveInfo{o.name, c.updates[k], c.nonFinite[k]})
	}
	for k := range t.own.passes {
		if w := &t.own.passes[k]; w.steps > 0 {
			i.Windows = append(i.Windows, WindowInfo{plan.info.objectives[k].name, w.steps, w.objectives[k].lost})
		}
	}
	i.Position = Position{Epoch: c.epochs}
	switch u := t.unfinished; {
	case p != nil && p.steps < p.total && (p.steps > 0 || p.pending > 0):
		u = p.unfinished(c)
		fallthrough
	case u != nil:
		i.Position, i.Epoch = u.position, u.EpochInfo
	case p != nil && p.steps == 0 && p.total > 0: // nothing of the epoch is done
		i.Position.Epoch, i.Epochs = p.epoch, p.epoch
	}
	return i, nil
}

// unfinishedEpoch is where a pass over the rest of an epoch starts, and with which numbers.
type unfinishedEpoch struct {
	position Position
	*EpochInfo
}

// unfinished returns what is left of the epoch of p, of which at least one step is finished. c are
// the counters of the trainer.
func (p *epochPass) unfinished(c *counters) *unfinishedEpoch {
	e := &EpochInfo{Steps: p.total, Samples: p.samples, Uploaded: p.uploaded, Correct: Number(p.correct), Metrics: numbersOf(p.totals),
		StepsSince: p.stepsBefore, UpdatesSince: slices.Clone(p.updatesBefore), Data: p.source.data.info()}
	for _, s := range p.objectives {
		e.Sums = append(e.Sums, SumsInfo{Number(s.loss), Number(s.weight), s.steps, s.skipped, s.nonFinite, s.lost})
	}
	u := &unfinishedEpoch{Position{Epoch: p.epoch, Step: p.steps}, e}
	// A batch whose remaining objectives have no step in it is finished.
	if p.pending > 0 {
		u.position.Objective = p.t.plan.info.objectives[p.objectiveAfter(p.pending-1, p.steps)].name
	}
	if p.body == nil || !p.body.paused { // else the counts are relative already
		e.StepsSince -= c.steps
		for i, n := range c.updates {
			e.UpdatesSince[i] -= n
		}
	}
	return u
}

// checkContinued returns an error if an unfinished epoch does not go on with the data of p.
func (t *Trainer) checkContinued(p *epochPass) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	u, data := t.unfinished, p.source.data.info()
	if u == nil || u.Data.same(data) {
		return nil
	}
	return fmt.Errorf("step %d of epoch %d is next, of %v, and this dataset has %v: "+
		"pass the same data, or set RestoreOptions.NextEpoch: %w", u.position.Step+1, u.position.Epoch, u.Data, data, ErrData)
}

// begin starts p, a pass of training, where the next epoch begins or an unfinished one goes on.
// checkContinued has found nothing.
func (t *Trainer) begin(p *epochPass) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c, u, data := &t.counters, t.unfinished, p.source.data.info()
	if u == nil {
		c.data = &data
		p.epoch, p.stepsBefore, p.updatesBefore = c.epochs, c.steps, slices.Clone(c.updates)
		c.epochs++
		return
	}
	c.data = &data
	p.epoch, p.steps, p.pending = u.position.Epoch, u.position.Step, t.plan.objectiveNamed(u.position.Objective)
	p.samples, p.uploaded, p.correct = u.Samples, u.Uploaded, float64(u.Correct)
	for i := range min(len(p.totals), len(u.Metrics)) {
		p.totals[i] = float64(u.Metrics[i])
	}
	for i, s := range u.Sums {
		p.objectives[i] = objectiveSums{float64(s.Loss), float64(s.Weight), s.Steps, s.Skipped, s.NonFinite, s.Lost}
	}
	p.stepsBefore, p.updatesBefore = u.StepsSince+c.steps, slices.Clone(u.UpdatesSince)
	for i, n := range c.updates {
		p.updatesBefore[i] += n
	}
	t.unfinished = nil
}

// info identifies the dataset.
func (e extent) info() DataInfo {
	d := DataInfo{Samples: e.samples}
	if e.fingerprint != 0 {
		d.Fingerprint = fmt.Sprintf("%016x", e.fingerprint)
	}
	for _, f := range e.fields {
		d.Fields = append(d.Fields, describeField(f))
	}
	return d
}

// same reports whether d and e are of the same data, as far as both know.
func (d DataInfo) same(e DataInfo) bool {
	return d.Samples == e.Samples && slices.Equal(d.Fields, e.Fields) &&
		(d.Fingerprint == e.Fingerprint || d.Fingerprint == "" || e.Fingerprint == "")
}

// String returns the data in words.
func (d DataInfo) String() string {
	s := fmt.Sprintf("%d samples with fields %q", d.Samples, d.Fields)
	if d.Fingerprint != "" {
		s += " and fingerprint " + d.Fingerprint
	}
	return s
}

// describeField returns the name, type and shape of a field, and how it is decoded.
func describeField(f dataloader.Field) string {
	s := fmt.Sprintf("%s %v %v", f.Name, f.Type, f.Shape)
	if scaleOf(f) != 1 || f.Shift != 0 {
		s += fmt.Sprintf(" %v·x+%v", scaleOf(f), f.Shift)
	}
	return s
}

// checkUnfinished returns ErrBusy if an epoch goes on at the next Fit or Steps, which what would
// break.
func (t *Trainer) checkUnfinished(what string, withinWindow bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	u, n := t.unfinished, max(1, t.plan.opt.Accumulate)
	if u == nil || withinWindow && (n == 1 || u.position.Step%n == 0 && u.position.Objective == "") {
		return nil
	}
	return fmt.Errorf("epoch %d was restored at step %d, which %s would break: the trainer is %w: finish the epoch first, "+
		"or set RestoreOptions.NextEpoch", u.position.Epoch, u.position.Step, what, ErrBusy)
}
