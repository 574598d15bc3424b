package trainer

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"

	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/internal/ir"
)

// cache keeps the programs of one model, for builds whose options differ where a program does not depend on them. A build with a cache can be looked at,
// not trained from: it does not know what parameters start with.
type cache struct {
	mu      sync.Mutex
	entries map[question][]*entry
}

// question is what a program is asked for by, beside options and homes.
type question struct {
	key
	first  bool        // of its build
	budget int64       // of recomputation
	like   *ir.Program // of the full batch
}

// entry has what was compiled for a question under some options.
type entry struct {
	opt     Options // those that decide
	mu      sync.Mutex
	answers []answer // by the homes that there were
}

// answer is a program, or why there is none. Invariant: homes are all that a compilation knows of the programs before it, so where these give it the same
// places, it has the same answer.
type answer struct {
	program *ir.Program
	err     error
	had     [len(starting)]int // parts that there were of each region whose contents the model gives
	places  []ir.Part          // that were asked for
}

// deciding returns o without what does not decide how program k is compiled. What is not named here is taken to decide.
func (o Options) deciding(k key) Options {
	o.Batch, o.EvalBatch, o.Accumulate = 0, 0, 0 // k has its rows and its window
	o.Memory, o.Recompute.Auto = 0, false        // they make the budget
	o.Schedule, o.Sequential, o.Tail, o.Workers, o.Progress = nil, false, 0, 0, nil
	switch {
	case k.mode != compile.Train:
		o.Optimizer, o.Guard, o.Recompute = nil, 0, Recompute{}
	case !k.window.Updates():
		o.Optimizer, o.Guard = nil, 0
	}
	return o
}

// entry returns the place for what b asks about program k.
func (c *cache) entry(b *build, k key, like *ir.Program) *entry {
	q := question{key: k, first: len(b.order) == 0, like: like}
	if k.mode == compile.Train {
		q.budget = b.budget
	}
	opt := b.opt.deciding(k)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.entries[q] {
		if reflect.DeepEqual(e.opt, opt) {
			return e
		}
	}
	if c.entries == nil {
		c.entries = make(map[question][]*entry)
	}
	e := &entry{opt: opt}
	c.entries[q] = append(c.entries[q], e)
	return e
}

// compile is build.compile, at most once for all builds that ask the same. One that asks while another compiles waits for it.
func (c *cache) compile(ctx context.Context, b *build, k key, like *ir.Program) (*ir.Program, error) {
	e := c.entry(b, k, like)
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range e.answers {
		if a := &e.answers[i]; b.takes(a) {
			return a.program, a.err
		}
	}
	a := answer{had: b.begun()}
	asked := len(b.homes.Asked())
	a.program, a.err = b.fresh(ctx, k, like)
	if ctx.Err() != nil || errors.Is(a.err, ir.ErrHome) { // which says nothing about other builds
		return a.program, a.err
	}
	a.places = slices.Clone(b.homes.Asked()[asked:])
	e.answers = append(e.answers, a)
	return a.program, a.err
}

// begun returns the number of parts of each region whose contents the model gives.
func (b *build) begun() (n [len(starting)]int) {
	for i, r := range starting {
		n[i] = len(b.homes.Parts(r))
	}
	return n
}

// takes makes the homes those that b has after a compilation with answer a, and reports whether a is what that would answer.
func (b *build) takes(a *answer) bool {
	if b.begun() != a.had || !b.homes.Repeat(a.places) {
		return false
	}
	for i, r := range starting {
		for _, p := range b.homes.Parts(r)[a.had[i]:] {
			b.starts[r] = append(b.starts[r], source{name: p.Name})
		}
	}
	return true
}
