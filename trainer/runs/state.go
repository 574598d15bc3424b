package runs

import (
	"time"

	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/report"
)

// Status says what a run does now.
type Status string

// Statuses of a run.
const (
	waiting    Status = "waiting" // no step yet
	Training   Status = "training"
	Evaluating Status = "evaluating"
	Paused     Status = "paused"
	Stopping   Status = "stopping"
	Ended      Status = "ended" // Close was called
)

// State are the numbers of a run as they are now.
type State struct {
	Status   Status         `json:"status"`
	Number   int64          `json:"number"` // of the latest training step
	Epoch    int            `json:"epoch"`  // counted from 0
	Step     int            `json:"step"`   // of the epoch, finished
	Steps    int            `json:"steps"`  // of the epoch
	Loss     trainer.Number `json:"loss"`   // mean of the epoch so far
	Accuracy trainer.Number `json:"accuracy"`
	Rate     trainer.Number `json:"rate"`    // learning rate of the latest step
	Norm     trainer.Number `json:"norm"`    // of the latest gradients
	Speed    float64        `json:"speed"`   // samples per second of training, at the last measurement
	Seconds  float64        `json:"seconds"` // that the run has lasted, all its processes together
	Samples  int64          `json:"samples"` // trained by this process
	Dropped  int64          `json:"dropped"` // steps of this process that are not recorded, as writing was too slow
	Time     Times          `json:"time"`
	Memory   Memory         `json:"memory"`
	// Error is that of the files, which has ended their writing.
	Error    string   `json:"error,omitempty"`
	Stopping bool     `json:"stopping,omitempty"` // Stop was called
	Pending  bool     `json:"pending,omitempty"`  // a checkpoint is asked for and not taken yet
	Can      Controls `json:"can"`
}

// Controls are what a run can be asked for.
type Controls struct {
	Stop       bool `json:"stop"`
	Checkpoint bool `json:"checkpoint"`
}

// Times are seconds of this process within passes of training, and what they were spent on: waiting
// for data, for copies to the device and for its steps, and the work of the training goroutine.
type Times struct {
	Data    float64 `json:"data"`
	Copy    float64 `json:"copy"`
	Compute float64 `json:"compute"`
	Host    float64 `json:"host"`
}

// Memory is memory in bytes; what is unknown is -1.
type Memory struct {
	Arena    int64 `json:"arena"`    // of the trainer, on the device
	Used     int64 `json:"used"`     // of the device, by all processes
	Free     int64 `json:"free"`     // of the device
	Pinned   int64 `json:"pinned"`   // host memory that the device reads
	Heap     int64 `json:"heap"`     // objects on the Go heap
	Resident int64 `json:"resident"` // physical memory of the process
}

// State returns the numbers as they are now.
func (r *Run) State() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now()
}

// now completes the state. r.mu is held.
func (r *Run) now() State {
	s := r.state
	s.Dropped = r.steps.dropped.Load()
	if source := r.source.Load(); source != nil && source.Checkpointer != nil {
		s.Pending = source.Checkpointer.Requested()
	}
	if s.Status != Ended {
		s.Seconds = r.before + time.Since(r.begun).Seconds()
		switch {
		case s.Stopping:
			s.Status = Stopping
		case r.gate.isPaused():
			s.Status = Paused
		case r.evaluating.Load():
			s.Status = Evaluating
		}
	}
	return s
}

// view is what the page shows of a run.
type view struct {
	Name     string            `json:"name"`
	Started  time.Time         `json:"started"`
	Saved    time.Time         `json:"saved"` // when the view was made
	Settings []trainer.Setting `json:"settings"`
	Plan     *planView         `json:"plan,omitempty"`
	State    State             `json:"state"`
	Charts   charts            `json:"charts"`
	Files    bool              `json:"files,omitempty"` // the page is in the folder of the run
}

// view returns the run as it is now. r.mu is held.
func (r *Run) view() *view {
	return &view{Name: r.opt.Name, Started: r.begun, Saved: time.Now(), Settings: r.opt.Settings, Plan: r.plan,
		State: r.now(), Charts: r.charts}
}

// planView is the part of a memory plan that the page shows, in bytes.
type planView struct {
	Device  string       `json:"device"`
	Total   int64        `json:"total"`
	Pinned  int64        `json:"pinned"`
	Regions []regionView `json:"regions"`
}

// regionView is a region of the arena.
type regionView struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// newPlanView returns what the page shows of a plan.
func newPlanView(p *report.Plan) *planView {
	v := &planView{Device: p.Device, Total: p.Total, Pinned: p.Pinned}
	for _, region := range p.Regions {
		if region.Size > 0 {
			v.Regions = append(v.Regions, regionView{region.Name, region.Size})
		}
	}
	return v
}
