package dataloader_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
)

// Mixing is how well the batches of some epochs mix classes.
type mixing struct {
	classes float64 // in a batch, mean
	largest float64 // share of the largest class in a batch, mean
	spread  float64 // chi-squared of the classes in a batch by its degrees of freedom, mean: 1 is that of chance
}

// mixingOf measures the batches of a dataset whose samples are sorted by class.
func mixingOf(t *testing.T, ds dataloader.Dataset, classes, batch, epochs int) (m mixing) {
	t.Helper()
	l := open(t, ds, dataloader.Options{Batch: batch, Shuffle: true, Seed: 1, Tail: dataloader.DropTail})
	steps := 0
	for epoch := range epochs {
		err := consume(t, l, epoch, slots(ds, 2, batch), func(r *dataloader.Run, b dataloader.Batch) error {
			counts := make([]int, classes)
			for _, i := range b.Indices {
				counts[i*classes/ds.Len()]++
			}
			want, chi2 := float64(batch)/float64(classes), 0.0
			for _, c := range counts {
				if c > 0 {
					m.classes++
				}
				chi2 += (float64(c) - want) * (float64(c) - want) / want
			}
			m.largest += float64(slices.Max(counts)) / float64(batch)
			m.spread += chi2 / float64(classes-1)
			steps++
			return r.Release(b.Slot, nil)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	m.classes, m.largest, m.spread = m.classes/float64(steps), m.largest/float64(steps), m.spread/float64(steps)
	return m
}

// More blocks in memory mix the classes of sorted data better; with all blocks they are mixed as by a full shuffle.
// The log holds the table of the documentation.
func TestMoreHeldBlocksMixClassesBetter(t *testing.T) {
	const blocks, size, classes, batch = 200, 50, 10, 100
	n := blocks * size
	sizes := slices.Repeat([]int{size}, blocks)
	var table strings.Builder
	fmt.Fprintf(&table, "%d samples sorted by %d classes, %d blocks of %d, batches of %d\n", n, classes, blocks, size, batch)
	fmt.Fprintln(&table, "| Held | classes in a batch | share of the largest class | chi-squared ÷ degrees of freedom |\n|---|---|---|---|")
	row := func(name string, m mixing) {
		fmt.Fprintf(&table, "| %s | %.1f | %.0f %% | %.2f |\n", name, m.classes, 100*m.largest, m.spread)
	}
	full := mixingOf(t, dataloader.Indices(n), classes, batch, 5)
	last := mixing{}
	for _, held := range []int{2, 4, 8, 16, 32, 64, 128, 200} {
		m := mixingOf(t, fromBlocks(t, newDecoded(sizes...), held), classes, batch, 5)
		row(fmt.Sprint(held), m)
		if held > 2 && (m.classes < last.classes-0.05 || m.spread > last.spread+0.05) {
			t.Errorf("%d blocks mix as %+v, fewer as %+v", held, m, last)
		}
		last = m
	}
	row("full shuffle", full)
	if last.spread > full.spread+0.1 || full.spread > 1.1 || full.spread < 0.9 {
		t.Errorf("all blocks: %+v, a full shuffle: %+v", last, full)
	}
	t.Log("\n" + table.String())
}
