package checkpoint_test

import (
	"os"
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/trainer/checkpoint"
)

// Checkpoints that cannot be read are removed as others are: when Keep newer ones are complete, and
// not before, as they may be read again.
func TestDamagedCheckpointsAreRemovedAsOthersAre(t *testing.T) {
	ds := samples(t, 40)
	opt := options(targets[0].open(t, 0))
	for _, keep := range []int{2, -1} {
		dir := t.TempDir()
		f, tr := opened(t, dir, checkpoint.Options{EverySteps: 1, Keep: -1}), made(t, opt)
		f.SetFiles(unsynced{})
		for _, step := range []int64{1, 2, 3, 4, 5, 6} {
			trainTo(t, f, tr, ds, step)
		}
		closed(t, f)
		// 2 is older than the newest that can be read, which is 3; 4 has lost its header, 5 its end,
		// and 6 a byte, which only its checksum shows.
		for i, c := range f.Checkpoints()[1:] {
			b, err := os.ReadFile(f.Path(c))
			if err != nil {
				t.Fatal(err)
			}
			switch i {
			case 0, 2:
				b = b[:4]
			case 3:
				b = b[:len(b)-1]
			case 4:
				b[len(b)-1] ^= 1
			}
			if err := os.WriteFile(f.Path(c), b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		f, tr = opened(t, dir, checkpoint.Options{EverySteps: 1, Keep: keep}), made(t, opt)
		f.SetFiles(unsynced{})
		if r := resume(t, f, tr); r.From.Step != 3 || len(r.Passed) != 3 {
			t.Fatalf("resumed %+v", r)
		}
		for _, c := range []struct {
			step int64
			want []int64 // of the files, with Keep 2
		}{
			{4, []int64{3, 4, 5, 6}}, // 4 is written anew, and 2 has two newer ones
			{5, []int64{4, 5, 6}},
			{6, []int64{5, 6}},
			{7, []int64{6, 7}},
		} {
			trainTo(t, f, tr, ds, c.step)
			if err := f.Wait(); err != nil {
				t.Fatal(err)
			}
			if keep < 0 {
				c.want = []int64{1, 2, 3, 4, 5, 6, 7}[:max(6, c.step)]
			}
			if got := stepsIn(t, dir); !slices.Equal(got, c.want) {
				t.Errorf("keep %d: after step %d files of steps %v, want %v", keep, c.step, got, c.want)
			}
		}
		closed(t, f)
	}
}

// A damaged checkpoint that no checkpoint of its step replaces is removed, too.
func TestADamagedCheckpointDoesNotStayForEver(t *testing.T) {
	ds, dir := samples(t, 40), t.TempDir()
	opt := options(targets[0].open(t, 0))
	f, tr := opened(t, dir, checkpoint.Options{EverySteps: 1}), made(t, opt)
	f.SetFiles(unsynced{})
	trainTo(t, f, tr, ds, 2)
	trainTo(t, f, tr, ds, 5)
	closed(t, f)
	all := f.Checkpoints()
	if err := os.Truncate(f.Path(all[len(all)-1]), 100); err != nil {
		t.Fatal(err)
	}
	f, tr = opened(t, dir, checkpoint.Options{EverySteps: 7, Keep: 2}), made(t, opt)
	f.SetFiles(unsynced{})
	first := resume(t, f, tr)
	for _, want := range [][]int64{{first.From.Step, 5, 7}, {7, 14}, {14, 21}} {
		trainTo(t, f, tr, ds, want[len(want)-1])
		if err := f.Wait(); err != nil {
			t.Fatal(err)
		}
		if got := stepsIn(t, dir); !slices.Equal(got, want) {
			t.Errorf("files of steps %v, want %v", got, want)
		}
	}
	closed(t, f)
}

// stepsIn returns the steps of the files of a folder.
func stepsIn(t *testing.T, dir string) (all []int64) {
	t.Helper()
	for _, n := range names(t, dir) {
		step, ok := checkpoint.StepOf(n)
		if !ok {
			t.Errorf("file %s", n)
		}
		all = append(all, step)
	}
	return all
}
