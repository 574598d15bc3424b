package trainer

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// lane is the memory of one batch of a predictor, and the stream that computes it. Data flow one way:
//
//	inputs of callers ─► host ─copy─► slot ─program─► results ─copy─► host ─► memory of callers
//
// With unified memory both copies are left out.
type lane struct {
	index  int
	used   bool // by a predictor; predictorWeights.mu guards it
	stream arena.Stream

	// run is held while a batch is in the lane, and while the weights change.
	run sync.Mutex

	// Views of host memory, and their places, for devices that check accesses.
	fields  map[string][]byte // of the slot
	spans   []arena.Span      // of the slot
	results []byte
	status  []int32 // the status word; nil if no program has one
	outcome arena.Span
	rows    []int // 0, 1, 2, …: the samples of a batch, for errors
}

// predictorProgram is a program that is bound to a lane.
type predictorProgram struct {
	rows    int
	ir      *ir.Program
	exec    kernels.Program
	uploads []kernels.Copy // nil on unified devices
	divides bool           // it checks divisors: rows that fill a batch up must have valid ones
}

// close releases the program.
func (p *predictorProgram) close() error {
	if p.exec == nil {
		return nil
	}
	return p.exec.Close()
}

// openMemory allocates the memory of all lanes and writes the initial values. After an error, close
// releases what was made.
func (w *predictorWeights) openMemory() (err error) {
	m, plan := w.memory, w.plan
	if d, ok := m.device.(kernels.HostAccessChecker); ok && !m.unified {
		m.touch = d.Touch
	}
	if m.arena, err = arena.New(m.device, &plan.layout, plan.opt.Memory); err != nil {
		return err
	}
	if !m.unified {
		if m.pinned, err = m.device.Pin(plan.pinnedBytes()); err != nil {
			return fmt.Errorf("pinned memory: %w", err)
		}
	}
	if w.compute, err = m.device.NewStream("weights"); err != nil {
		return fmt.Errorf("stream of weights: %w", err)
	}
	if w.loaded, err = m.device.NewEvent(); err != nil {
		return fmt.Errorf("event of weights: %w", err)
	}
	for i := range plan.regions {
		l, err := w.newLane(i)
		w.lanes = append(w.lanes, l)
		if err != nil {
			return err
		}
	}
	if err := m.writeInitialValues(w.compute); err != nil {
		return err
	}
	if err := w.bindPrepack(); err != nil {
		return err
	}
	return w.repack()
}

// newLane makes lane i. After an error, close releases what was made.
func (w *predictorWeights) newLane(i int) (l *lane, err error) {
	l = &lane{index: i, fields: make(map[string][]byte), rows: make([]int, w.plan.opt.Batch)}
	for r := range l.rows {
		l.rows[r] = r
	}
	if l.stream, err = w.memory.device.NewStream(fmt.Sprintf("predict %d", i)); err != nil {
		return l, fmt.Errorf("stream: %w", err)
	}
	homes := &w.plan.homes
	for _, home := range homes.Parts(ir.Slot) {
		s := w.hostSpan(home.Ref, i)
		l.fields[home.Name] = bytesOf(s)
		l.spans = append(l.spans, s)
	}
	l.outcome = w.hostSpan(arena.Ref{Region: ir.Results, Size: w.plan.outcomeBytes()}, i)
	l.results = bytesOf(l.outcome)[:homes.Bytes(ir.Results)]
	if home, ok := homes.Find(ir.Guard, ir.GuardName); ok {
		l.status = dataloader.View[int32](bytesOf(w.hostSpan(home.Ref, i)))
	}
	return l, w.reset(l)
}

// reset clears the status word and the slot of a lane: rows that fill a batch up are then valid.
func (w *predictorWeights) reset(l *lane) error {
	for _, s := range l.spans {
		w.memory.willWrite(s)
		clear(bytesOf(s))
	}
	for _, home := range w.plan.homes.Parts(ir.Guard) {
		if err := l.stream.Fill(w.span(home.Ref, l.index), 0); err != nil {
			return fmt.Errorf("clear %q: %w", home.Name, err)
		}
	}
	return l.stream.Sync()
}

// span returns the device's place of a program's reference, for a program on lane i.
func (w *predictorWeights) span(ref arena.Ref, i int) arena.Span {
	return w.memory.span(w.plan.regions[i].Ref(ref))
}

// hostSpan returns the host's place of a part of the slot or the outcome of lane i.
func (w *predictorWeights) hostSpan(ref arena.Ref, i int) arena.Span {
	if w.memory.unified {
		return w.span(ref, i)
	}
	slot, outcome := w.plan.homes.Bytes(ir.Slot), w.plan.outcomeBytes()
	at := int64(i)*(slot+outcome) + ref.Offset
	switch ref.Region {
	case ir.Results:
		at += slot
	case ir.Guard:
		at += slot + w.plan.homes.Bytes(ir.Results)
	}
	return arena.Span{Memory: w.memory.pinned, Offset: at, Size: ref.Size}
}

// predictor returns a predictor on a free lane. If there is none, the error wraps ErrBusy.
func (w *predictorWeights) predictor() (*Predictor, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.IndexFunc(w.lanes, func(l *lane) bool { return !l.used })
	switch {
	case w.memory.arena == nil || w.open == 0 && w.lanes[0].rows == nil:
		return nil, errPredictorClosed
	case i < 0:
		return nil, fmt.Errorf("all %d views are in use: close one, or raise PredictorOptions.Views: %w", len(w.lanes)-1, ErrBusy)
	}
	p := &Predictor{weights: w, lane: w.lanes[i], batch: w.plan.opt.Batch, maxDelay: w.plan.opt.MaxDelay}
	for _, rows := range w.plan.sizes {
		prog, err := w.bind(w.lanes[i], rows)
		if err != nil {
			for k := range p.sizes {
				err = errors.Join(err, p.sizes[k].close())
			}
			return nil, err
		}
		p.sizes = append(p.sizes, prog)
	}
	p.bindInputs()
	p.bindOutputs()
	p.queue.init(p.batch, p.maxDelay > 0)
	w.lanes[i].used = true
	w.open++
	return p, nil
}

// bind makes the program of a number of rows ready to launch on a lane.
func (w *predictorWeights) bind(l *lane, rows int) (p predictorProgram, err error) {
	prog := w.plan.programs[programKey{mode: compile.Predict, rows: rows, dataset: streamed}]
	divides := slices.ContainsFunc(prog.Indices, func(x ir.Indices) bool { return x.Divides })
	p = predictorProgram{rows: rows, ir: prog, divides: divides}
	b := kernels.Binding{Memory: w.memory.arena.Memory(), Base: w.plan.regions[l.index].Bases(&w.plan.layout)}
	if !w.memory.unified {
		from := arena.Ref{Region: ir.Results, Size: w.plan.outcomeBytes()}
		b.After = []kernels.Copy{{Dst: l.outcome, Src: w.span(from, l.index)}}
		for _, ref := range coalesce(slotValues(prog)) {
			p.uploads = append(p.uploads, kernels.Copy{Dst: w.span(ref, l.index), Src: w.hostSpan(ref, l.index)})
		}
	}
	if p.exec, err = w.memory.device.Bind(prog.Calls(), b); err != nil {
		return p, fmt.Errorf("bind %s: %w", prog.Name, err)
	}
	return p, nil
}

// launch computes the batch in the slot of a lane and waits until its results are on the host.
func (w *predictorWeights) launch(l *lane, p *predictorProgram) error {
	for i := range p.uploads {
		if err := l.stream.Copy(p.uploads[i].Dst, p.uploads[i].Src); err != nil {
			return errors.Join(fmt.Errorf("upload: %w", err), l.stream.Sync())
		}
	}
	if err := p.exec.Launch(l.stream); err != nil {
		return errors.Join(err, l.stream.Sync())
	}
	if err := l.stream.Sync(); err != nil {
		_ = l.stream.Sync() // if the call failed and not the work, the work is still in flight
		return err
	}
	w.memory.willRead(l.outcome)
	return nil
}

// release gives a lane back, and closes everything with the last one.
func (w *predictorWeights) release(l *lane) error {
	w.mu.Lock()
	l.used = false
	w.open--
	last := w.open == 0
	w.mu.Unlock()
	if !last {
		return nil
	}
	w.update.Lock() // wait for an update of the weights
	defer w.update.Unlock()
	return w.close()
}

// close releases everything. No lane is in use.
func (w *predictorWeights) close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var errs []error
	for _, l := range w.lanes {
		if l.stream != nil {
			errs = append(errs, l.stream.Close())
		}
		l.fields, l.results, l.status, l.rows = nil, nil, nil, nil
	}
	if w.prepack != nil {
		errs = append(errs, w.prepack.Close())
	}
	if w.loaded != nil {
		errs = append(errs, w.loaded.Close())
	}
	if w.compute != nil {
		errs = append(errs, w.compute.Close())
	}
	return errors.Join(append(errs, w.memory.close())...)
}
