package emu_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/emutest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/emu"
)

// The orderings of the double buffered pipeline, each of which can be left out.
const (
	loaderWaits  = 1 << iota // the host refills pinned i after the copy out of it
	copyWaits                // the copy stream overwrites device i after it was consumed
	computeWaits             // the compute stream reads device i after the copy into it
	hostWaits                // the host reads results after the compute stream is done
	everything   = 1<<iota - 1
)

// pipeline sends steps numbers through two slots, doubles them on the device and returns what arrived.
// The host really writes only what it may, unless force is set.
func pipeline(t *testing.T, d *emu.Device, steps, with int, force bool) []float32 {
	t.Helper()
	mem := must(d.Alloc(512 + int64(steps)*256))(t)
	pin := must(d.Pin(512 + int64(steps)*256))(t)
	copies, compute := must(d.NewStream("copies"))(t), must(d.NewStream("compute"))(t)
	var copied, consumed [2]arena.Event
	for i := range 2 {
		copied[i], consumed[i] = must(d.NewEvent())(t), must(d.NewEvent())(t)
	}
	for k := range steps {
		i := k % 2
		slot := int64(i) * 256
		result := 512 + int64(k)*256
		p := must(d.Bind([]kernels.Call{call("double", 0, result-slot)}, kernels.Binding{Memory: mem, Base: []int64{slot}}))(t)
		if with&loaderWaits != 0 {
			ok(t, copied[i].Sync())
		}
		d.Touch(part(pin, slot, 16), true)
		if with&loaderWaits != 0 || force {
			put(pin.Bytes()[slot:], float32(k+1))
		}
		if with&copyWaits != 0 {
			ok(t, copies.Wait(consumed[i]))
		}
		ok(t, copies.Copy(part(mem, slot, 16), part(pin, slot, 16)), copies.Record(copied[i]))
		if with&computeWaits != 0 {
			ok(t, compute.Wait(copied[i]))
		}
		ok(t, p.Launch(compute), compute.Record(consumed[i]))
		ok(t, compute.Copy(part(pin, result, 16), part(mem, result, 16)))
	}
	if with&hostWaits != 0 {
		ok(t, compute.Sync())
	}
	d.Touch(part(pin, 512, int64(steps)*256), false)
	ok(t, copies.Sync(), compute.Sync())
	got := make([]float32, steps)
	for k := range got {
		got[k] = read(pin.Bytes()[512+k*256:], 1)[0]
	}
	return got
}

func TestPipelineIsRightWhateverTheDelays(t *testing.T) {
	for seed := range uint64(10) {
		for _, o := range []emu.Options{{Seed: seed, Delay: 200 * time.Microsecond}, {Seed: seed, Lazy: true}} {
			d := open(t, o)
			for k, got := range pipeline(t, d, 20, everything, false) {
				if want := float32(2 * (k + 1)); got != want {
					t.Fatalf("seed %d: step %d: got %v, want %v", seed, k, got, want)
				}
			}
			if r := d.Races(); r != nil {
				t.Fatalf("seed %d: races in a right program: %v", seed, errors.Join(r...))
			}
		}
	}
}

func TestEveryMissingEventIsReported(t *testing.T) {
	for _, c := range []struct {
		name    string
		without int
		sides   []string
	}{
		{"the loader does not wait", loaderWaits, []string{"host", "copies"}},
		{"the copy stream does not wait", copyWaits, []string{"copies", "compute"}},
		{"the compute stream does not wait", computeWaits, []string{"copies", "compute"}},
		{"the host does not wait", hostWaits, []string{"host", "compute"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var mu sync.Mutex
			var told int
			d := open(t, emu.Options{OnRace: func(error) { mu.Lock(); told++; mu.Unlock() }})
			pipeline(t, d, 6, everything&^c.without, false)
			races := d.Races()
			if len(races) == 0 {
				t.Fatal("not reported")
			}
			if told != len(races) {
				t.Errorf("OnRace heard of %d of %d", told, len(races))
			}
			for _, err := range races {
				var r *emu.Race
				if !errors.As(err, &r) || !errors.Is(err, emu.ErrRace) {
					t.Fatalf("%v is no race", err)
				}
				for _, side := range c.sides {
					if r.First.Stream != side && r.Second.Stream != side {
						t.Errorf("%v: does not name %q", err, side)
					}
				}
			}
		})
	}
}

func TestALoaderThatDoesNotWaitSpoilsTheDataOfALazyDevice(t *testing.T) {
	d := open(t, emu.Options{Lazy: true})
	got := pipeline(t, d, 6, everything&^loaderWaits, true)
	if got[0] == 2 {
		t.Errorf("got %v: the first batch was copied before it was overwritten", got)
	}
}

func TestARaceNamesBothCallsAndTheBytes(t *testing.T) {
	d := open(t, emu.Options{})
	mem := must(d.Alloc(1024))(t)
	a, b := must(d.NewStream("a"))(t), must(d.NewStream("b"))(t)
	p := must(d.Bind([]kernels.Call{call("hidden/w", 0, 512)}, kernels.Binding{Memory: mem, Base: []int64{0}}))(t)
	ok(t, a.Fill(part(mem, 520, 100), 0), p.Launch(b))
	races := d.Races()
	if len(races) != 1 {
		t.Fatalf("got %v, want one race", races)
	}
	for _, want := range []string{"[520:528]", `write by stream "a" (work 1, fill)`, `write by stream "b" (work 1, call 0 "hidden/w" (twice))`} {
		if !strings.Contains(races[0].Error(), want) {
			t.Errorf("%v\ndoes not contain %s", races[0], want)
		}
	}
	ok(t, a.Sync(), b.Sync())
}

func TestTheHostMayTouchOnlyPinnedMemory(t *testing.T) {
	d := open(t, emu.Options{})
	mem := must(d.Alloc(256))(t)
	d.Touch(all(mem), false)
	if r := d.Races(); len(r) != 1 || !errors.Is(r[0], emu.ErrForeign) {
		t.Errorf("got %v, want an error that wraps ErrForeign", r)
	}
}

// TestCheckerAgreesWithReachability runs random programs on three streams and the host. The checker
// must report a race if and only if two conflicting accesses are not connected in the graph of
// program order, events and syncs, found here by brute force.
func TestCheckerAgreesWithReachability(t *testing.T) {
	const programs, racy = 1500, 100
	found := 0
	for seed := range uint64(programs) {
		want, got := randomProgram(t, seed)
		if want != got {
			t.Fatalf("seed %d: races by reachability: %v, by the checker: %v", seed, want, got)
		}
		if want {
			found++
		}
	}
	t.Logf("%d of %d programs had a race", found, programs)
	if found < racy || programs-found < racy {
		t.Errorf("%d racy programs of %d say little", found, programs)
	}
}

// node is one step of a random program: an access, and the nodes directly before it.
type node struct {
	before []int
	lo, hi int64
	write  bool
}

func randomProgram(t *testing.T, seed uint64) (want, got bool) {
	r := rand.New(rand.NewPCG(seed, 1))
	d := emutest.Open(t, emu.Options{Lazy: true})
	defer d.Close()
	pin := must(d.Pin(64))(t)
	streams := make([]arena.Stream, 3)
	for i := range streams {
		streams[i] = must(d.NewStream(string(rune('a' + i))))(t)
	}
	events := make([]arena.Event, 3)
	for i := range events {
		events[i] = must(d.NewEvent())(t)
	}
	var nodes []node
	last := [4]int{-1, -1, -1, -1} // of the host (3) and each stream
	recorded := [3]int{-1, -1, -1} // node at the last record of each event
	add := func(who int, n node, before ...int) {
		for _, b := range append(before, last[who]) {
			if b >= 0 {
				n.before = append(n.before, b)
			}
		}
		nodes = append(nodes, n)
		last[who] = len(nodes) - 1
	}
	for range 3 + r.IntN(12) {
		i, e := r.IntN(3), r.IntN(3)
		lo := r.Int64N(60)
		hi := lo + 1 + r.Int64N(64-lo)
		switch r.IntN(8) {
		case 0, 1: // a stream writes
			ok(t, streams[i].Fill(part(pin, lo, hi-lo), 1))
			add(i, node{lo: lo, hi: hi, write: true}, last[3])
		case 2: // a stream reads; what it writes is its own
			add(i, node{lo: lo, hi: hi}, last[3])
			scratch := must(d.Alloc(64))(t)
			ok(t, streams[i].Copy(part(scratch, 0, hi-lo), part(pin, lo, hi-lo)))
		case 3: // the host touches
			w := r.IntN(2) == 0
			d.Touch(part(pin, lo, hi-lo), w)
			add(3, node{lo: lo, hi: hi, write: w})
		case 4:
			ok(t, streams[i].Record(events[e]))
			add(i, node{}, last[3])
			recorded[e] = last[i]
		case 5:
			ok(t, streams[i].Wait(events[e]))
			if recorded[e] >= 0 {
				add(i, node{}, last[3], recorded[e])
			}
		case 6:
			ok(t, events[e].Sync())
			add(3, node{}, recorded[e])
		case 7:
			ok(t, streams[i].Sync())
			add(3, node{}, last[i])
		}
	}
	return conflict(nodes), len(d.Races()) > 0
}

// conflict reports whether two nodes touch the same bytes, one writing, with no path between them.
func conflict(nodes []node) bool {
	reach := make([]map[int]bool, len(nodes))
	for i, n := range nodes {
		reach[i] = map[int]bool{}
		for _, b := range n.before {
			reach[i][b] = true
			for k := range reach[b] {
				reach[i][k] = true
			}
		}
		for k, m := range nodes[:i] {
			if !reach[i][k] && (n.write || m.write) && n.lo < m.hi && m.lo < n.hi {
				return true
			}
		}
	}
	return false
}
