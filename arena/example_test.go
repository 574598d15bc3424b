package arena_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels/cpu"
)

// Plan the activations of two layers, lay out an arena with them, allocate it, and use it.
func Example() {
	// The values of three instructions. The live range of input ends where out starts: both may share bytes.
	problem := arena.Problem{Buffers: []arena.Buffer{
		{Name: "input", Size: 4000, Start: 0, End: 2},
		{Name: "hidden", Size: 2000, Start: 1, End: 3},
		{Name: "out", Size: 4000, Start: 2, End: 3},
	}}
	plan, err := arena.Solve(context.Background(), problem)
	if err != nil {
		log.Fatal(err)
	}

	var l arena.Layout
	weights, scratch := l.Region("weights"), l.Region("scratch")
	weight := l.Place(weights, "hidden", "weight", 400)
	l.Reserve(scratch, plan.Bytes)
	if err := l.Err(); err != nil {
		log.Fatal(err)
	}

	dev, err := cpu.Open(cpu.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	a, err := arena.New(dev, &l, 0)
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close()
	h, err := a.Handle(weight, "weight")
	if err != nil {
		log.Fatal(err)
	}
	if err := h.Write(make([]byte, 400)); err != nil {
		log.Fatal(err)
	}
	fmt.Println("scratch:", plan.Bytes, "arena:", a.Stats().Reserved)
	// Output:
	// scratch: 6144 arena: 6656
}

// Regions begin at multiples of 256 bytes, and so do the parts in them.
func ExampleLayout() {
	var l arena.Layout
	weights := l.Region("weights")
	l.Place(weights, "hidden", "weight", 300)
	bias := l.Place(weights, "hidden", "bias", 40)
	scratch := l.Region("scratch")
	l.Reserve(scratch, 1000)
	fmt.Println("bias at", bias.Offset, "of", l.Regions()[weights].Name)
	fmt.Println("scratch at", l.Base(scratch), "of", l.Total())

	l.Place(weights, "out", "weight", -1)
	fmt.Println(l.Err())
	// Output:
	// bias at 512 of weights
	// scratch at 768 of 1792
	// invalid size: -1 bytes for "out/weight" in region "weights"
}

// Buffers that are never live together share bytes.
func ExampleSolve() {
	p := arena.Problem{Buffers: []arena.Buffer{
		{Name: "a", Size: 512, Start: 0, End: 2},
		{Name: "b", Size: 256, Start: 1, End: 3},
		{Name: "c", Size: 512, Start: 2, End: 4},
	}}
	plan, err := arena.Solve(context.Background(), p)
	if err != nil {
		log.Fatal(err)
	}
	for i, b := range p.Buffers {
		fmt.Println(b.Name, "at", plan.Offsets[i])
	}
	fmt.Println(plan.Bytes, "bytes, peak", plan.Live, "at instruction", plan.LiveAt, "optimal", plan.Optimal)

	p.Capacity = 700
	_, err = arena.Solve(context.Background(), p)
	fmt.Println(err)
	// Output:
	// a at 0
	// b at 512
	// c at 0
	// 768 bytes, peak 768 at instruction 1 optimal true
	// a: need 768 bytes at instruction 1, have 700: 68 missing; largest: a 512, b 256
}

// A plan of another program is checked before it is used.
func ExampleCheck() {
	p := arena.Problem{Buffers: []arena.Buffer{
		{Name: "a", Size: 256, Start: 0, End: 2},
		{Name: "b", Size: 256, Start: 1, End: 3},
	}}
	plan := arena.Plan{Offsets: []int64{0, 256}, Bytes: 512, Live: 512, LiveAt: 1}
	fmt.Println(arena.Check(p, plan))
	plan.Offsets[1] = 0
	err := arena.Check(p, plan)
	fmt.Println(errors.Is(err, arena.ErrPlan), err)
	// Output:
	// <nil>
	// true wrong plan: overlap: buffers 1 ("b") and 0 ("a") share bytes at instruction 1
}

func ExampleBound() {
	peak, at := arena.Bound(arena.Problem{Buffers: []arena.Buffer{
		{Name: "a", Size: 512, Start: 0, End: 2},
		{Name: "b", Size: 256, Start: 1, End: 3},
	}})
	fmt.Println(peak, "bytes at instruction", at)
	// Output:
	// 768 bytes at instruction 1
}

// One allocation on a device. A limit below the total is an error before anything is allocated.
func ExampleNew() {
	var l arena.Layout
	l.Place(l.Region("weights"), "hidden", "weight", 1000)
	dev, err := cpu.Open(cpu.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	_, err = arena.New(dev, &l, 512)
	fmt.Println(err)

	a, err := arena.New(dev, &l, l.Total())
	if err != nil {
		log.Fatal(err)
	}
	s := a.Stats()
	fmt.Println(s.Reserved, "bytes, of which", s.InUse, "are parts")
	fmt.Println(a.Close())
	// Output:
	// arena: need 1024 bytes, have 512: 512 missing; largest: hidden/weights weight 1000
	// 1024 bytes, of which 1024 are parts
	// <nil>
}

// A handle fails once its region is reset: it never reads the bytes of a later step.
func ExampleHandle() {
	var l arena.Layout
	results := l.Region("results")
	loss := l.Place(results, "", "loss", 4)
	dev, err := cpu.Open(cpu.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	a, err := arena.New(dev, &l, 0)
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close()

	h, err := a.Handle(loss, "loss")
	if err != nil {
		log.Fatal(err)
	}
	got := make([]byte, 4)
	fmt.Println(h.Write([]byte{1, 2, 3, 4}), h.Read(got), got)
	if err := a.Reset(results); err != nil {
		log.Fatal(err)
	}
	err = h.Read(got)
	fmt.Println(errors.Is(err, arena.ErrStale), err)
	// Output:
	// <nil> <nil> [1 2 3 4]
	// true stale handle "loss": it is of step 1 of region results, which is in step 2: read the value before the reset
}

// A sentry names the instruction that writes past the end of its buffer.
func ExampleSentry() {
	p := arena.Guarded(arena.Problem{Buffers: []arena.Buffer{{Name: "y", Size: 100, Start: 0, End: 1}}})
	plan, err := arena.Solve(context.Background(), p)
	if err != nil {
		log.Fatal(err)
	}
	memory := make([]byte, plan.Bytes)
	s, err := arena.NewSentry(p, plan, memory)
	if err != nil {
		log.Fatal(err)
	}
	s.Begin()
	memory[plan.Offsets[0]+100] = 1 // a kernel writes one byte too many
	fmt.Println(s.After(0, "relu"))
	// Output:
	// call "relu" (instruction 0) wrote past the end of "y": byte 100 of 100
}
