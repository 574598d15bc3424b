package arena_test

import (
	"encoding/csv"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/seed"
)

// random returns a generator and prints the seed if the test fails.
func random(t testing.TB) *rand.Rand { return seed.Rand(t, 0x5eed) }

// lifetimes makes n buffers of mixed sizes and alignments that live at random.
func lifetimes(r *rand.Rand, n int) arena.Problem {
	var p arena.Problem
	steps := 1 + r.IntN(2*n+1)
	alignments := []int64{0, 0, 0, 0, 256, 512, 64, 4096}
	for i := range n {
		b := arena.Buffer{Name: fmt.Sprint("b", i), Owner: "random"}
		b.Size = int64(math.Exp(16 * r.Float64()))
		if r.IntN(20) == 0 {
			b.Size = 0
		}
		if n > 1 && i > 0 && r.IntN(3) == 0 {
			b.Size = p.Buffers[i-1].Size
		}
		if r.IntN(4) == 0 {
			b.Align = alignments[r.IntN(len(alignments))]
		}
		b.Start = int32(r.IntN(steps))
		b.End = b.Start + int32(min(r.IntN(steps+1), int(r.ExpFloat64()*float64(steps)/6)))
		p.Buffers = append(p.Buffers, b)
	}
	return p
}

// saturated makes buffers that leave no byte of the bound free at any time: the hardest to place.
func saturated(r *rand.Rand) arena.Problem {
	var p arena.Problem
	free, steps := 4+r.IntN(9), 3+r.IntN(5)
	var live []int
	for now := range steps {
		live = slices.DeleteFunc(live, func(i int) bool {
			if now == 0 || r.IntN(3) > 0 {
				return false
			}
			p.Buffers[i].End = int32(now)
			free += int(p.Buffers[i].Size / arena.Align)
			return true
		})
		for free > 0 {
			size := 1 + r.IntN(free)
			free -= size
			live = append(live, len(p.Buffers))
			p.Buffers = append(p.Buffers, arena.Buffer{Size: int64(size) * arena.Align, Start: int32(now), End: int32(steps)})
		}
	}
	return p
}

// occupied returns the bytes that b takes, rounded to its alignment.
func occupied(b arena.Buffer) int64 {
	align := b.Align
	if align == 0 {
		align = arena.Align
	}
	return (b.Size + align - 1) / align * align
}

// trainingStep makes the lifetimes of a random step: a chain of layers with skips and workspaces, then its gradients.
func trainingStep(r *rand.Rand) arena.Problem { return stepOf(r, 5+r.IntN(60)) }

// stepOf is trainingStep of n layers, four instructions each.
func stepOf(r *rand.Rand, n int) arena.Problem {
	type layer struct {
		from   []int
		size   int64
		kept   bool // the output is read by the backward pass, not the input
		act, d int  // indices of buffers, d -1 before there is one
	}
	var p arena.Problem
	now := int32(0)
	add := func(name string, size int64, life int32) int {
		p.Buffers = append(p.Buffers, arena.Buffer{Name: name, Size: size, Start: now, End: now + life})
		return len(p.Buffers) - 1
	}
	read := func(b int) { p.Buffers[b].End = max(p.Buffers[b].End, now+1) }
	workspace := func(size int64) {
		if r.IntN(3) == 0 {
			add("workspace", int64(2*r.Float64()*float64(size)), 1)
		}
	}
	keep := r.IntN(2) == 0
	layers := make([]layer, n)
	for i := range layers {
		l := &layers[i]
		l.size, l.kept, l.d = int64(math.Exp(8+8*r.Float64())), r.IntN(3) > 0, -1
		if i > 0 {
			l.from = append(l.from, i-1)
			if r.IntN(2) == 0 {
				l.size = layers[i-1].size
			}
		}
		if i > 2 && r.IntN(3) == 0 {
			l.from = append(l.from, r.IntN(i-1))
		}
		l.act = add("activation", l.size, 1)
		for _, j := range l.from {
			read(layers[j].act)
		}
		workspace(l.size)
		now++
	}
	top := &layers[len(layers)-1]
	top.d = add("gradient", top.size, 1)
	for i := len(layers) - 1; i >= 0; i-- {
		l := &layers[i]
		now++
		if r.IntN(2) == 0 {
			life := int32(2)
			if keep {
				life = 100000
			}
			add("weight gradient", int64(math.Exp(8+7*r.Float64())), life)
			read(l.d)
			now++
		}
		workspace(l.size)
		for _, j := range l.from {
			d := add("gradient", layers[j].size, 1)
			read(l.d)
			if l.kept {
				read(l.act)
			} else {
				read(layers[j].act)
			}
			now++
			if layers[j].d >= 0 { // the sum of both
				read(d)
				read(layers[j].d)
				d = add("gradient", layers[j].size, 1)
				now++
			}
			layers[j].d = d
			read(d)
		}
	}
	return p
}

// trace reads recorded lifetimes of a real step.
func trace(t testing.TB, path string) arena.Problem {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var p arena.Problem
	for _, row := range rows[1:] { // id, lower, upper, size
		var n [3]int64
		for k := range n {
			if n[k], err = strconv.ParseInt(row[k+1], 10, 64); err != nil {
				t.Fatal(err)
			}
		}
		p.Buffers = append(p.Buffers, arena.Buffer{Name: row[0], Start: int32(n[0]), End: int32(n[1]), Size: n[2]})
	}
	return p
}

// traces lists the recorded steps.
func traces(t testing.TB) []string {
	paths, err := filepath.Glob("testdata/*.csv")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no traces: %v", err)
	}
	return paths
}
