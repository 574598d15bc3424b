package cpu

import (
	"errors"
	"time"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/group"
	"github.com/evenkeel/evenkeel/kernels"
)

// pendingSums are an AllReduce of a program, between its two calls.
type pendingSums struct {
	operations []group.Operation
	nth        int           // of the first call
	bytes      int64         // summed
	begin      time.Duration // of a timed launch
}

// bindAllReduce prepares the start of a sum over the ranks of a group. Operands that lie one after
// another, with nothing but padding between them, are sent as one.
func bindAllReduce(b *binding) (func(), error) {
	a, p := b.Attrs.(kernels.AllReduceAttrs), b.prog
	sums := &pendingSums{nth: b.nth}
	for k := 0; k < len(b.Out); {
		lo := b.base[b.Out[k].Ref.Region] + b.Out[k].Ref.Offset
		hi := lo + b.Out[k].Bytes()
		for k++; k < len(b.Out); k++ {
			if at := b.base[b.Out[k].Ref.Region] + b.Out[k].Ref.Offset; at < hi || at > arena.Round(hi) {
				break
			} else {
				hi = at + b.Out[k].Bytes()
			}
		}
		op, err := a.Prepare(b.mem[lo:hi:hi])
		if err != nil {
			return nil, err
		}
		if op != nil {
			sums.operations = append(sums.operations, op)
			sums.bytes += hi - lo
			p.operations = append(p.operations, op)
		}
	}
	if p.pending == nil {
		p.pending = make(map[string]*pendingSums)
	}
	p.pending[a.Label] = sums
	return func() {
		if p.timing != nil {
			sums.begin = p.timing.timeline.Now()
		}
		for _, op := range sums.operations {
			p.fail(op.Start())
		}
	}, nil
}

// bindAwait prepares the end of a sum over the ranks of a group.
func bindAwait(b *binding) (func(), error) {
	sums, p := b.prog.pending[b.Attrs.(kernels.AllReduceAttrs).Label], b.prog
	if sums == nil { // the bind of the AllReduce failed
		return nil, nil
	}
	return func() {
		for _, op := range sums.operations {
			p.fail(op.Wait())
		}
		if p.timing != nil {
			p.timing.addSum(sums)
		}
	}, nil
}

// bindAgree prepares an agreement of the ranks of a group.
func bindAgree(b *binding) (func(), error) {
	agree, done, err := b.Attrs.(kernels.AgreeAttrs).Prepare(b.all(b.In), b.all(b.Out))
	if err != nil {
		return nil, err
	}
	b.prog.operations = append(b.prog.operations, closer(done))
	return func() { b.prog.fail(agree()) }, nil
}

// closer is a function as an io.Closer.
type closer func() error

// Close calls c.
func (c closer) Close() error { return c() }

// closeOperations releases what the calls of groups have.
func (p *program) closeOperations() error {
	var errs []error
	for _, op := range p.operations {
		errs = append(errs, op.Close())
	}
	p.operations, p.pending = nil, nil
	return errors.Join(errs...)
}
