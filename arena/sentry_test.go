package arena_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
)

// program is a problem with guards, its plan and memory, run by a fake kernel that writes outputs from inputs.
type program struct {
	arena.Problem
	plan   arena.Plan
	memory []byte
	sentry *arena.Sentry
}

func watch(t testing.TB, p arena.Problem) *program {
	t.Helper()
	g := arena.Guarded(p)
	g.Effort = 100_000
	plan, err := arena.Solve(context.Background(), g)
	if err != nil {
		t.Fatal(err)
	}
	run := &program{Problem: g, plan: plan, memory: make([]byte, plan.Bytes+512)}
	if run.sentry, err = arena.NewSentry(g, plan, run.memory); err != nil {
		t.Fatal(err)
	}
	return run
}

// payload returns the bytes of buffer i.
func (p *program) payload(i int) []byte {
	off := p.plan.Offsets[i]
	return p.memory[off : off+p.Buffers[i].Size-arena.GuardBytes]
}

// call writes all of what is born with instruction i, and one byte of everything else that lives.
func (p *program) call(i int32) {
	for k, b := range p.Buffers {
		if i < b.Start || b.End <= i {
			continue
		}
		x := p.payload(k)
		if b.Start == i {
			for n := range x {
				x[n] = byte(n + k)
			}
		} else if len(x) > 0 {
			x[len(x)-1]++
		}
	}
}

// three lives: a [0,2), b [1,3), c [2,4) which may take a's place.
func three() arena.Problem {
	return arena.Problem{Buffers: []arena.Buffer{
		{Owner: "hidden", Name: "a", Size: 1000, Start: 0, End: 2},
		{Owner: "hidden", Name: "b", Size: 512, Start: 1, End: 3},
		{Owner: "out", Name: "c", Size: 1000, Start: 2, End: 4},
	}}
}

// short makes the buffers of p smaller than a page.
func short(p arena.Problem) arena.Problem {
	for i := range p.Buffers {
		p.Buffers[i].Size %= 4000
	}
	return p
}

func TestRightProgramsPassTheSentry(t *testing.T) {
	r := random(t)
	for range 200 {
		p := watch(t, short(lifetimes(r, r.IntN(20))))
		for range 2 {
			p.sentry.Begin()
			for i := range int32(60) {
				p.call(i)
				if err := p.sentry.After(i, "call"); err != nil {
					t.Fatalf("%v\n%+v", err, p.Problem)
				}
			}
		}
	}
}

func TestTheSentryNamesTheCallThatWritesOutsideOfItsBuffers(t *testing.T) {
	p := watch(t, three())
	a, b, c := p.plan.Offsets[0], p.plan.Offsets[1], p.plan.Offsets[2]
	if a != c || b <= a {
		t.Fatalf("places %v: the cases below assume that c follows a, with b behind", p.plan.Offsets)
	}
	end := int64(len(p.memory))
	for _, test := range []struct {
		name   string
		after  int32
		at     int64
		buffer string
		offset int64
		dead   bool
	}{
		{"one byte past the end", 0, a + 1000, "hidden/a", 1000, false},
		{"the last byte before the neighbour", 1, b - 1, "hidden/a", b - 1 - a, false},
		{"past the end of the second", 1, b + 512, "hidden/b", 512, false},
		{"the guard of what took over", 3, c + 1010, "out/c", 1010, false},
		{"where a buffer lived before", 3, b + 5, "hidden/b", 5, true},
		{"where a buffer's guard was before", 3, b + 512, "hidden/b", 512, true},
		{"where nobody has lived yet", 0, b + 7, "hidden/a", b + 7 - a, false},
		{"behind everything", 1, end - 1, "hidden/b", end - 1 - b, false},
		{"behind everything, in the end", 3, end - 1, "out/c", end - 1 - c, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			p.sentry.Begin()
			for i := range int32(4) {
				p.call(i)
				if i == test.after {
					p.memory[test.at] = 7
				}
				err := p.sentry.After(i, fmt.Sprint("call ", i))
				if i < test.after {
					if err != nil {
						t.Fatal(err)
					}
					continue
				}
				want := arena.OverrunError{Call: fmt.Sprint("call ", i), Instruction: i, Buffer: test.buffer,
					Offset: test.offset, Size: 1000, Dead: test.dead}
				if test.buffer == "hidden/b" {
					want.Size = 512
				}
				var e *arena.OverrunError
				if !errors.As(err, &e) || !errors.Is(err, arena.ErrOverrun) || *e != want {
					t.Fatalf("got  %v\nwant %v", err, &want)
				}
				return
			}
		})
	}
}

func TestAWriteBeforeAnythingHasLivedIsFound(t *testing.T) {
	p := watch(t, arena.Problem{Buffers: []arena.Buffer{{Name: "late", Size: 10, Start: 3, End: 4}}})
	p.sentry.Begin()
	p.memory[4] = 0
	want := `call "early" (instruction 0) wrote to memory that no buffer has used: byte 4`
	if err := p.sentry.After(0, "early"); !errors.Is(err, arena.ErrOverrun) || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// TestEveryStrayByteIsFound writes one byte at random where the instruction that runs owns none.
func TestEveryStrayByteIsFound(t *testing.T) {
	r := random(t)
	planted := 0
	for range 2_000 {
		p := watch(t, short(lifetimes(r, 1+r.IntN(8))))
		at, victim := int32(r.IntN(12)), r.IntN(len(p.memory))
		for k, b := range p.Buffers {
			if b.Start <= at && at < b.End {
				if off := p.plan.Offsets[k]; int64(victim) >= off && int64(victim) < off+int64(len(p.payload(k))) {
					victim = -1
					break
				}
			}
		}
		if victim < 0 {
			continue
		}
		planted++
		p.sentry.Begin()
		for i := range at + 1 {
			p.call(i)
			if i == at {
				p.memory[victim] ^= byte(1 + r.IntN(255))
			}
			err := p.sentry.After(i, "call")
			if found := errors.Is(err, arena.ErrOverrun); found != (i == at) {
				t.Fatalf("after %d: got %v; byte %d was written by %d\n%+v\n%+v", i, err, victim, at, p.Problem, p.plan)
			}
		}
	}
	if planted < 500 {
		t.Errorf("only %d writes were planted", planted)
	}
}

func TestDeadAndUnwrittenMemoryReadsAsNaN(t *testing.T) {
	p := watch(t, three())
	nan := func(what string, b []byte) {
		t.Helper()
		f, d := math.Float32frombits(binary.LittleEndian.Uint32(b)), math.Float64frombits(binary.LittleEndian.Uint64(b))
		if f == f || d == d {
			t.Errorf("%s: got %v and %v, want NaN", what, f, d)
		}
	}
	p.sentry.Begin()
	nan("before it is written", p.payload(0))
	for i := range int32(3) {
		p.call(i)
		if err := p.sentry.After(i, "call"); err != nil {
			t.Fatal(err)
		}
	}
	nan("after its end", p.payload(1))
	if x := p.payload(2); x[0] != 2 || x[1] != 3 {
		t.Error("a live buffer was poisoned")
	}
}

func TestTheSentryRefusesWhatItCannotWatch(t *testing.T) {
	p := watch(t, three())
	if _, err := arena.NewSentry(p.Problem, p.plan, p.memory[:p.plan.Bytes-1]); !errors.Is(err, arena.ErrInvalid) {
		t.Errorf("too little memory: got %v", err)
	}
	plan := p.plan
	plan.Bytes = 0
	if _, err := arena.NewSentry(p.Problem, plan, p.memory); !errors.Is(err, arena.ErrPlan) {
		t.Errorf("a wrong plan: got %v", err)
	}
	bare := arena.Problem{Buffers: []arena.Buffer{{Size: 3, End: 1}}}
	plan, _ = solved(t, bare)
	if _, err := arena.NewSentry(bare, plan, p.memory); !errors.Is(err, arena.ErrInvalid) {
		t.Errorf("buffers without guards: got %v", err)
	}
	if err := p.sentry.After(0, "x"); !errors.Is(err, arena.ErrInvalid) {
		t.Errorf("After without Begin: got %v", err)
	}
	p.sentry.Begin()
	if err := p.sentry.After(1, "x"); !errors.Is(err, arena.ErrInvalid) {
		t.Errorf("After that leaves out an instruction: got %v", err)
	}
}

func TestGuardedLeavesItsProblemAsItIs(t *testing.T) {
	p := three()
	g := arena.Guarded(p)
	if p.Buffers[0].Size != 1000 || g.Buffers[0].Size != 1000+arena.GuardBytes {
		t.Errorf("got %d and %d", p.Buffers[0].Size, g.Buffers[0].Size)
	}
	wrong := arena.Guarded(arena.Problem{Buffers: []arena.Buffer{{Size: -1, End: 1}}})
	if _, err := arena.Solve(context.Background(), wrong); !errors.Is(err, arena.ErrInvalid) {
		t.Errorf("a negative size became right: %v", err)
	}
}

func BenchmarkSentryAfter(b *testing.B) {
	p := watch(b, lifetimes(rand.New(rand.NewPCG(1, 1)), 50))
	b.SetBytes(int64(len(p.memory)))
	i := int32(0)
	p.sentry.Begin()
	for b.Loop() {
		p.call(i)
		if err := p.sentry.After(i, "call"); err != nil {
			b.Fatal(err)
		}
		i++
	}
}
