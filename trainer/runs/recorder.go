package runs

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/report"
)

// stepSeries and epochSeries are the names of series of single steps and of means over epochs.
const (
	stepSeries  = "step"
	epochSeries = "epoch"
)

// recorder is the goroutine of a run: it takes steps from the ring, adds them to the charts and the
// files, measures memory and speed, and passes all on to subscribers.
type recorder struct {
	run   *Run
	files files
	plan  atomic.Pointer[report.Plan] // that is not written yet; nil: none
	row   row

	ended    bool             // the error of the numbers is logged
	undrawn  bool             // and that of pictures
	trained  bool             // a step was recorded
	before   trainer.Progress // the step before
	samples  int              // trained since the last measurement
	spent    Times            // at the last measurement
	measured time.Time
	told     time.Time // when subscribers had the last update
	status   Status    // that they had
	pending  bool
	objected map[string]names
}

// names are the names of the series of an objective.
type names struct{ step, epoch, only string }

// loop records until Close.
func (c *recorder) loop() {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	r := c.run
	c.measured = time.Now()
	for {
		select {
		case <-r.stop:
			return
		case <-r.wake:
			c.look(time.Now(), false)
		case <-ticker.C:
			c.look(time.Now(), false)
		}
	}
}

// close records what is left.
func (c *recorder) close() error {
	r := c.run
	c.drain()
	r.mu.Lock()
	r.state = r.now()
	r.state.Status = Ended
	r.mu.Unlock()
	c.look(time.Now(), true)
	r.mu.Lock()
	for s := range r.subscribers {
		r.drop(s)
	}
	r.mu.Unlock()
	err := c.files.close()
	if err != nil && !c.ended && !c.undrawn {
		r.log.Error("the files of the run cannot be closed", "error", err)
	}
	return err
}

// look records everything new; last also draws the files.
func (c *recorder) look(now time.Time, last bool) {
	c.drain()
	r := c.run
	lasted := r.before + now.Sub(r.begun).Seconds()
	// The longer a run, the rarer: the number of records grows with the logarithm of its time.
	if period := max(second, time.Duration(lasted/chartPoints*float64(time.Second))); now.Sub(c.measured) >= period || last {
		c.measure(now)
		c.files.lookForFolder()
	}
	if plan := c.plan.Swap(nil); plan != nil {
		c.files.writePlan(plan)
	}
	c.files.flush()
	if c.files.drawingDue(now) || last {
		c.draw()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c.report()
	if state := r.now(); last || now.Sub(c.told) >= second || state.Status != c.status || state.Pending != c.pending {
		c.told, c.status, c.pending = now, state.Status, state.Pending
		r.publish()
	}
}

// report logs the first error of the numbers and of the pictures, and sets the one that the page shows.
// r.mu is held.
func (c *recorder) report() {
	r := c.run
	if err := c.files.err; err != nil && !c.ended {
		c.ended = true
		r.log.Error("the numbers of the run are not recorded any more; the training goes on", "error", err)
	}
	if err := c.files.pictures; err != nil && !c.undrawn {
		c.undrawn = true
		r.log.Error("a picture or a page of the run cannot be written; the numbers are", "error", err)
	}
	if err := c.files.first(); err != nil {
		r.state.Error = err.Error()
	}
}

// draw draws the files.
func (c *recorder) draw() {
	if c.files.dir == "" {
		return
	}
	begun := time.Now()
	r := c.run
	// The charts are the recorder's own: others only read them.
	v := r.lockedView()
	v.Files = true
	c.files.draw(v)
	c.files.drawn, c.files.drawingTime = time.Now(), time.Since(begun)
}

// lockedView is view with the lock.
func (r *Run) lockedView() *view {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.view()
}

// drain records the steps of the ring and the evaluations.
func (c *recorder) drain() {
	r := c.run
	r.mu.Lock()
	defer r.mu.Unlock()
	// Evaluations first: their steps are in the ring already, others may be, too.
	evaluations := r.evaluations
	r.evaluations = nil
	for s := r.steps.first(); s != nil; s = r.steps.first() {
		for len(evaluations) > 0 && evaluations[0].at.Before(r.begun.Add(s.at)) {
			c.evaluation(&evaluations[0])
			evaluations = evaluations[1:]
		}
		c.step(s)
		r.steps.take()
	}
	for i := range evaluations {
		c.evaluation(&evaluations[i])
	}
}

// begin starts a row at a time.
func (c *recorder) begin(at time.Time) {
	r := c.run
	c.row = row{step: r.state.Number, time: at, seconds: r.before + at.Sub(r.begun).Seconds(), epoch: r.state.Epoch,
		values: c.row.values[:0]}
}

// add adds a value to the row.
func (c *recorder) add(chart, name string, v float64) {
	c.row.values = append(c.row.values, value{c.run.charts.series(chart, name), v})
}

// end records the row.
func (c *recorder) end() {
	if len(c.row.values) > 0 {
		c.row.addTo()
		c.files.write(&c.row)
	}
}

// step records a step. r.mu is held.
func (c *recorder) step(s *step) {
	r := c.run
	back := s.StepNumber <= r.state.Number // training went back, to a checkpoint
	if back {
		r.charts.cut(s.StepNumber)
		r.cut = true
	}
	if back || !c.trained {
		c.files.restart(r.begun.Add(s.at), s.StepNumber)
		c.trained = true
	}
	c.count(s)
	st := &r.state
	st.Status = Training
	st.Number, st.Epoch, st.Step, st.Steps = s.StepNumber, s.Epoch, s.Step, s.Steps
	st.Loss, st.Accuracy, st.Rate = trainer.Number(s.Loss), trainer.Number(s.Accuracy), trainer.Number(s.StepRate)
	st.Norm = trainer.Number(s.StepNorm)
	c.begin(r.begun.Add(s.at))
	n := c.names(s.Objective)
	some := func(chart, name string, v float64) {
		if !math.IsNaN(v) {
			c.add(chart, name, v)
		}
	}
	c.add(lossChart, n.step, s.StepLoss)
	some(accuracyChart, n.step, s.StepAccuracy)
	c.add(rateChart, n.only, s.StepRate)
	some(normChart, n.only, s.StepNorm)
	if s.Step == s.Steps {
		c.add(lossChart, n.epoch, s.Loss)
		some(accuracyChart, n.epoch, s.Accuracy)
	}
	if s.layers {
		for i, layer := range r.norms.layers {
			some(layersChart, layer, float64(s.norms[i]))
		}
	}
	c.end()
}

// names returns the names of the series of an objective, "" if there is one.
func (c *recorder) names(objective string) names {
	if objective == "" {
		return names{stepSeries, epochSeries, ""}
	}
	n, ok := c.objected[objective]
	if !ok {
		n = names{objective + " " + stepSeries, objective + " " + epochSeries, objective}
		if c.objected == nil {
			c.objected = make(map[string]names)
		}
		c.objected[objective] = n
	}
	return n
}

// anotherPass reports whether a step is not of the pass of the one before it.
func anotherPass(before, p *trainer.Progress) bool {
	return p.Input.Elapsed < before.Input.Elapsed || p.Epoch != before.Epoch
}

// count adds the samples and the times between the step before and this one. The counters of a
// Progress begin again in each pass.
func (c *recorder) count(s *step) {
	st, b := &c.run.state, &c.before
	if anotherPass(b, &s.Progress) {
		*b = trainer.Progress{Samples: s.Samples}
		if s.Step == 1 {
			b.Samples = 0
		}
	}
	n := max(0, s.Samples-b.Samples)
	c.samples += n
	st.Samples += int64(n)
	data := (s.Input.Waited - b.Input.Waited).Seconds()
	copied := (s.Waits.Copy - b.Waits.Copy).Seconds()
	compute := (s.Waits.Compute - b.Waits.Compute).Seconds()
	st.Time.Data += data
	st.Time.Copy += copied
	st.Time.Compute += compute
	st.Time.Host += max(0, (s.Input.Elapsed-b.Input.Elapsed).Seconds()-data-copied-compute)
	*b = s.Progress
}

// evaluation records the result of an evaluation. r.mu is held.
func (c *recorder) evaluation(e *evaluation) {
	c.begin(e.at)
	if len(e.result.Losses) < 2 {
		c.add(lossChart, e.data, e.result.Loss)
	} else {
		for _, l := range e.result.Losses {
			c.add(lossChart, e.data+" "+l.Name, l.Loss)
		}
	}
	if !math.IsNaN(e.result.Accuracy) {
		c.add(accuracyChart, e.data, e.result.Accuracy)
	}
	for _, m := range e.result.Metrics {
		if !math.IsNaN(m.Value) {
			c.add(metricChart, e.data+" "+m.Name, m.Value)
		}
	}
	c.end()
}

// measure records memory, speed and the shares of time since the last measurement.
func (c *recorder) measure(now time.Time) {
	r := c.run
	m := readMemory(r.source.Load())
	r.mu.Lock()
	defer r.mu.Unlock()
	c.begin(now)
	m.values(c.add)
	t := r.state.Time
	d := Times{t.Data - c.spent.Data, t.Copy - c.spent.Copy, t.Compute - c.spent.Compute, t.Host - c.spent.Host}
	if sum := d.Data + d.Copy + d.Compute + d.Host; sum > 0 && c.samples > 0 {
		r.state.Speed = float64(c.samples) / sum // of training: evaluations and pauses are not part of the sum
		c.add(speedChart, "", r.state.Speed)
		c.add(timeChart, "compute", d.Compute/sum)
		c.add(timeChart, "host", d.Host/sum)
		c.add(timeChart, "copies", d.Copy/sum)
		c.add(timeChart, "data", d.Data/sum)
		c.spent = t
	}
	r.state.Memory = m
	c.samples, c.measured = 0, now
	c.end()
}
