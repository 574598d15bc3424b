// Package flight is a flight recorder: it keeps the last steps of a training and who owns its memory,
// and writes them when something goes wrong.
//
//	rec := flight.New(0)
//	opt.Progress = rec.Progress
//	t, err := trainer.New(ctx, model, opt)
//	…
//	rec.Watch(t)
//	defer rec.Guard(os.Stderr)                          // a panic is dumped, and goes on
//	defer rec.Notify(os.Stderr, syscall.SIGUSR1)()      // kill -USR1 dumps a training that hangs
//	if _, err := t.Fit(ctx, ds); err != nil {
//		rec.Dump(os.Stderr, err.Error())
//	}
package flight

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/report"
)

// Trainer is what is watched: a *trainer.Trainer.
type Trainer interface {
	// Footprint returns the bytes in use.
	Footprint() trainer.Footprint
	// Plan returns the memory plan.
	Plan() *report.Plan
}

// Record is a finished step.
type Record struct {
	At        time.Duration // since New
	Objective string        // that the step trained; "" if there is one, and in an evaluation
	Number    int64         // of the training step, from 1; 0 in an evaluation
	Epoch     int           // from 0
	Step      int           // of the epoch, from 1
	Loss      float64       // of the step
	Norm      float64       // L2 norm of the gradients; NaN if it is not computed
	Rate      float64       // learning rate; 0 in an evaluation
	Waited    time.Duration // for data, since the pass began
	// Bytes, 0 if nothing is watched.
	Arena    int64 // of the arena that are in use
	Pinned   int64 // of pinned host memory
	Host     int64 // of the Go heap that the trainer keeps
	Uploaded int64 // of samples, since the trainer was made
}

// defaultSteps is the number of steps of New(0).
const defaultSteps = 256

// MaxSteps is the most steps that a recorder keeps, in 128 MiB.
const MaxSteps = 1 << 20

// Recorder keeps the last steps: New makes one. Its methods may be called from several goroutines at once.
type Recorder struct {
	begun time.Time

	mu      sync.Mutex
	ring    []Record
	total   int64 // records ever
	watched Trainer
	owners  []Owner
}

// Owner is a layer and the bytes of device memory that it owns, from the plan.
type Owner struct {
	Layer string `json:"layer"` // "" for what belongs to no layer, such as scratch
	Bytes int64  `json:"bytes"`
}

// New returns a recorder of the last steps. 0 or less: 256, which are 32 KiB. More than MaxSteps:
// MaxSteps.
func New(steps int) *Recorder {
	if steps <= 0 {
		steps = defaultSteps
	}
	return &Recorder{begun: time.Now(), ring: make([]Record, min(steps, MaxSteps))}
}

// Watch adds the bytes of t to each record from now on, and the owners of its memory to dumps. nil
// ends that.
func (r *Recorder) Watch(t Trainer) {
	var owners []Owner
	if t != nil {
		for _, l := range t.Plan().Layers() {
			owners = append(owners, Owner{l.Name, l.Total})
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watched, r.owners = t, owners
}

// Progress records a step. It is for Options.Progress, and allocates nothing.
func (r *Recorder) Progress(p trainer.Progress) {
	rec := Record{At: time.Since(r.begun), Objective: p.Objective, Number: p.StepNumber, Epoch: p.Epoch, Step: p.Step,
		Loss: p.StepLoss, Norm: p.StepNorm, Rate: p.StepRate, Waited: p.Input.Waited}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.watched != nil {
		f := r.watched.Footprint()
		rec.Arena, rec.Pinned, rec.Host, rec.Uploaded = f.Arena, f.Pinned, f.Host, f.Uploaded
	}
	r.ring[r.total%int64(len(r.ring))] = rec
	r.total++
}

// Records returns the steps that are kept, the oldest first, in memory of the caller.
func (r *Recorder) Records() []Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.records()
}

// records is Records with the lock held.
func (r *Recorder) records() []Record {
	n := min(r.total, int64(len(r.ring)))
	all := make([]Record, 0, n)
	for i := r.total - n; i < r.total; i++ {
		all = append(all, r.ring[i%int64(len(r.ring))])
	}
	return all
}

// Guard dumps to w if the goroutine panics, and panics again with the same value. It must be deferred
// itself: defer rec.Guard(os.Stderr).
func (r *Recorder) Guard(w io.Writer) {
	if v := recover(); v != nil {
		_ = r.Dump(w, fmt.Sprintf("panic: %v", v)) // the panic matters more
		panic(v)
	}
}

// Notify dumps to w whenever the process receives one of the signals, until stop is called; the
// process goes on. Stop returns when no dump is being written, and may be called twice.
func (r *Recorder) Notify(w io.Writer, signals ...os.Signal) (stop func()) {
	received, quit := make(chan os.Signal, 1), make(chan struct{})
	var serving sync.WaitGroup
	if len(signals) > 0 { // else signal.Notify means all of them
		signal.Notify(received, signals...)
	}
	serving.Go(func() {
		for {
			select {
			case s := <-received:
				_ = r.Dump(w, "signal: "+s.String()) // nobody to return it to
			case <-quit:
				return
			}
		}
	})
	return sync.OnceFunc(func() {
		signal.Stop(received)
		close(quit)
		serving.Wait()
	})
}
