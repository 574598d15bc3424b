package trainer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/evenkeel/evenkeel/arena"
)

// Predict computes Model.Output for 1 to Batch rows and writes it to dst, row after row, as float32.
// There is one slice for each of Inputs, of the element type in its Spec ([]float32, []float64,
// []uint8, []int32 or []int64), with the same number of rows in each. dst must have as many rows. A
// call allocates nothing. A wrong argument is an *InputError; an index outside the rows of a table
// is an *IndexError and a division of an integer by 0 a *DivisionError, whose Sample is the row.
//
// Any number of goroutines may call it at once. Calls that wait at the same time are computed
// together, in the order of their arrival; see PredictorOptions.MaxDelay. If ctx ends while the call
// waits, it returns ctx's error, and no other call is affected; a batch that has begun is finished.
// After Close it returns ErrClosed. Outputs that are not finite are no error.
func (p *Predictor) Predict(ctx context.Context, dst []float32, inputs ...any) error {
	all := [1][]float32{dst}
	return p.predict(ctx, all[:], inputs)
}

// PredictAll is Predict for a model with several outputs: there is one dst for each of Outputs, in
// that order. It leaves out those that are nil or missing.
func (p *Predictor) PredictAll(ctx context.Context, dst [][]float32, inputs ...any) error {
	return p.predict(ctx, dst, inputs)
}

func (p *Predictor) predict(ctx context.Context, dst [][]float32, inputs []any) error {
	switch {
	case p == nil || p.weights == nil:
		return errPredictorClosed
	case ctx == nil:
		return errNilContext
	case ctx.Err() != nil:
		return ctx.Err()
	}
	q := &p.queue
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return errPredictorClosed
	}
	r := q.take(len(p.inputs), len(p.outputs))
	if !p.fill(r, dst, inputs) {
		q.give(r)
		q.mu.Unlock()
		return p.explain(dst, inputs)
	}
	q.enqueue(r)
	lead := r.state == leading
	q.mu.Unlock()
	if !lead {
		select {
		case <-r.wake:
		case <-ctx.Done():
			q.mu.Lock()
			if r.state == waiting {
				q.remove(r)
				q.give(r)
				q.mu.Unlock()
				return ctx.Err()
			}
			q.mu.Unlock()
			<-r.wake // soon: the batch is being computed, or the predictor closed, or this is the leader
		}
		// Whoever woke this caller set state before; nobody changes it now.
		if r.state == done {
			err := r.err
			q.mu.Lock()
			q.give(r)
			q.mu.Unlock()
			return err
		}
	}
	return p.lead(ctx, r)
}

// lead computes the batch of all calls that wait. r is that of the caller, who is the leader.
func (p *Predictor) lead(ctx context.Context, r *predictRequest) error {
	q := &p.queue
	if q.crowded {
		// The callers of the batch before this one are awake and may call again. If they get the
		// processor first, their rows are in this batch.
		runtime.Gosched()
	}
	if q.delay {
		if err := q.gather(ctx, r, p.maxDelay); err != nil {
			return err
		}
	}
	p.lane.run.Lock()
	q.mu.Lock()
	q.takeBatch() // of r and others; of none if the predictor was closed
	q.mu.Unlock()
	if len(q.batch) > 0 {
		p.computeBatch(q.batch)
	}
	q.crowded = len(q.batch) > 1
	p.lane.run.Unlock()
	q.mu.Lock()
	for _, o := range q.batch {
		if o != r {
			o.state = done
		}
	}
	q.mu.Unlock()
	for _, o := range q.batch {
		if o != r {
			o.wake <- struct{}{}
		}
	}
	// The next leader uses batch: it leads only when the others are awake.
	q.mu.Lock()
	err := r.err
	next := q.passOn()
	q.give(r)
	q.mu.Unlock()
	if next != nil {
		next.wake <- struct{}{}
	}
	return err
}

// fill enters the arguments of a call in r. It returns false if any is wrong.
func (p *Predictor) fill(r *predictRequest, dst [][]float32, inputs []any) bool {
	if len(inputs) != len(p.inputs) || len(dst) > len(p.outputs) {
		return false
	}
	r.rows = 0
	for i := range p.inputs {
		in := &p.inputs[i]
		b, t := bytesOfSlice(inputs[i])
		n := len(b) / in.bytes
		if t != in.spec.Type || n*in.bytes != len(b) || n == 0 || n > p.batch || i > 0 && n != r.rows {
			return false
		}
		r.in[i], r.rows = b, n
	}
	wanted := false
	for i := range dst {
		if dst[i] != nil {
			wanted = true
			if len(dst[i]) != r.rows*p.outputs[i].elems {
				return false
			}
		}
		r.dst[i] = dst[i]
	}
	return wanted
}

// explain returns the error about arguments that fill refused.
func (p *Predictor) explain(dst [][]float32, inputs []any) error {
	types, lengths := make([]arena.DType, len(inputs)), make([]int, len(inputs))
	for i, x := range inputs {
		b, t := bytesOfSlice(x)
		types[i], lengths[i] = t, len(b)
	}
	return p.inputError(dst, types, lengths)
}

// computeBatch computes the requests of a batch and sets the error of each. The caller has the lane.
func (p *Predictor) computeBatch(batch []*predictRequest) {
	rows, err := p.compute(batch)
	if err != nil && len(batch) > 1 && (errors.Is(err, ErrIndex) || errors.Is(err, ErrDivision)) {
		// One request is wrong, and there may be others: each is computed alone.
		for i := range batch {
			_, batch[i].err = p.compute(batch[i : i+1])
		}
	} else {
		for _, r := range batch {
			r.err = err
		}
	}
	p.counts.calls.Add(int64(len(batch)))
	p.counts.rows.Add(int64(rows))
	p.counts.batches.Add(1)
}

// compute computes requests as one batch and writes their outputs. It returns the number of rows.
func (p *Predictor) compute(batch []*predictRequest) (rows int, err error) {
	l := p.lane
	if err := l.stream.Sync(); err != nil { // a closed device has freed the memory: nothing may be written there
		return 0, err
	}
	if p.weights.stale != nil {
		return 0, p.weights.stale
	}
	if p.weights.memory.touch != nil {
		for _, s := range l.spans {
			p.weights.memory.willWrite(s)
		}
	}
	for _, r := range batch {
		for i := range p.inputs {
			in := &p.inputs[i]
			copy(in.host[rows*in.bytes:], r.in[i])
		}
		rows += r.rows
	}
	prog := p.program(rows)
	if prog.divides {
		p.repeatFirstRow(rows, prog.rows)
	}
	if err := p.weights.launch(l, prog); err != nil {
		return rows, err
	}
	if l.status != nil && l.status[0] != 0 {
		return rows, errors.Join(badIndex(prog.ir.Indices, l.status, l.rows[:rows]), p.weights.reset(l))
	}
	p.counts.padded.Add(int64(prog.rows - rows))
	first := 0
	for _, r := range batch {
		for i := range r.dst {
			if r.dst[i] != nil {
				p.outputs[i].read(r.dst[i], first, r.rows)
			}
		}
		first += r.rows
	}
	return rows, nil
}

// repeatFirstRow copies the first row of the inputs to the rows that fill a batch up: what is divided by
// 0 there, or by what an earlier call left, would be an error of this call.
func (p *Predictor) repeatFirstRow(rows, end int) {
	for i := range p.inputs {
		in := &p.inputs[i]
		for r := rows; r < end; r++ {
			copy(in.host[r*in.bytes:], in.host[:in.bytes])
		}
	}
}

// program returns the smallest program that holds rows.
func (p *Predictor) program(rows int) *predictorProgram {
	for i := range p.sizes {
		if p.sizes[i].rows >= rows {
			return &p.sizes[i]
		}
	}
	return &p.sizes[len(p.sizes)-1]
}

// checkRows returns an error that wraps ErrModel if a row of an output depends on other rows of the
// inputs. It computes a batch of zeros, and one whose rows but the first are NaN: the first row of
// the output must not change. The largest integers replace NaN where an input is of integers.
func (p *Predictor) checkRows() error {
	if len(p.inputs) == 0 {
		return fmt.Errorf("no input of the model leads to its output: %w", ErrModel)
	}
	prog := p.program(2)
	if prog.rows < 2 {
		return nil
	}
	l, w := p.lane, p.weights
	if err := w.launch(l, prog); err != nil {
		return err
	}
	var want [][]byte
	row := func(o *predictorOutput) []byte { return o.host[:len(o.host)/p.batch] }
	for i := range p.outputs {
		want = append(want, bytes.Clone(row(&p.outputs[i])))
	}
	for _, s := range l.spans {
		w.memory.willWrite(s)
	}
	for _, in := range p.inputs {
		for i := in.bytes; i < len(in.host); i++ {
			in.host[i] = 0xff
		}
	}
	if err := w.launch(l, prog); err != nil {
		return err
	}
	bad := &mistakes{class: ErrModel}
	if l.status == nil || l.status[0] == 0 { // else an integer is an index, and outside its table
		for i := range p.outputs {
			if o := &p.outputs[i]; !bytes.Equal(row(o), want[i]) {
				bad.addf("%s: a row depends on other rows of the batch: a predictor fills batches with rows of "+
					"other calls; use Trainer.Predict, or set PredictorOptions.Batch to 1", o.name)
			}
		}
	}
	return errors.Join(append(bad.errs, w.reset(l))...)
}
