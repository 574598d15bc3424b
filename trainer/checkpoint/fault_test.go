package checkpoint_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/atomicfile"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/checkpoint"
	"github.com/evenkeel/evenkeel/trainer/loop"
)

// contains reports whether the text of an error contains s.
func contains(err error, s string) bool { return strings.Contains(err.Error(), s) }

// slowData takes some time for each sample, after a channel is closed if it has one.
type slowData struct {
	dataloader.Dataset
	time  time.Duration
	after <-chan struct{}
}

func (s slowData) Fetch(ctx context.Context, at dataloader.At, dst [][]byte) error {
	sleep := s.after == nil
	select {
	case <-s.after:
		sleep = true
	default:
	}
	if sleep {
		time.Sleep(s.time)
	}
	return s.Dataset.Fetch(ctx, at, dst)
}

func slow(ds dataloader.Dataset, d time.Duration) dataloader.Dataset { return slowData{ds, d, nil} }

// Every call of a save fails in turn, in every way; the checkpoint before it is then resumed, and
// the next save succeeds.
func TestWhateverFailsInASaveTheFormerCheckpointLoads(t *testing.T) {
	dev := targets[0].open(t, 0)
	ds, tr := samples(t, 40), made(t, options(dev))
	for _, shard := range []int64{0, 800} {
		opt := checkpoint.Options{EverySteps: 100, Keep: 1, ShardBytes: shard}
		former := t.TempDir()
		f := opened(t, former, opt)
		if _, err := f.Resume(t.Context(), tr); err != nil {
			t.Fatal(err)
		}
		if err := f.Save(t.Context(), tr); err != nil {
			t.Fatal(err)
		}
		closed(t, f)
		want := bits(t, tr)
		for _, fault := range []error{syscall.ENOSPC, syscall.EIO, syscall.EROFS, errShort} {
			calls := failingSave(t, opt, former, tr, ds, want, -1, fault)
			if len(calls) < 10 {
				t.Errorf("only the calls %q", calls)
			}
			for n := range calls {
				failingSave(t, opt, former, tr, ds, want, n, fault)
			}
		}
		f = opened(t, former, opt)
		resume(t, f, tr)
		closed(t, f)
	}
}

// failingSave copies a folder, trains from its checkpoint, and saves. Call n of the save fails. It
// returns the calls.
func failingSave(t *testing.T, opt checkpoint.Options, former string, tr *trainer.Trainer, ds dataloader.Dataset, want string, n int, fault error) []string {
	t.Helper()
	dir, ctx := filepath.Join(t.TempDir(), "run"), context.Background()
	if err := os.CopyFS(dir, os.DirFS(former)); err != nil {
		t.Fatal(err)
	}
	f := opened(t, dir, opt)
	before := resume(t, f, tr).From.Step
	faults := &atomicfile.Faults{FS: unsynced{}, Fail: func(i int, _, _ string) error {
		if i == n {
			return fault
		}
		return nil
	}}
	if fault == errShort {
		faults.Short = 3
	}
	f.SetFiles(faults)
	if _, err := tr.Fit(ctx, ds); err != nil {
		t.Fatal(err)
	}
	err := f.Save(ctx, tr)
	if n < 0 {
		if err != nil {
			t.Fatal(err)
		}
		closed(t, f)
		return faults.Calls()
	}
	op := faults.Calls()[n]
	whole := op == "remove" || op == "syncdir" // the new one may be complete
	var e *checkpoint.SaveError
	saved := err == nil && op == "remove" // of the former one
	if !saved && (!errors.As(err, &e) || !errors.Is(err, checkpoint.ErrSave) || !errors.Is(err, fault) || e.Step != before+5 || f.Err() != err || f.Stats().Failed != 1) {
		t.Fatalf("call %d, %s: got %v", n, op, err)
	}
	if err := f.Close(); !saved && !errors.Is(err, fault) {
		t.Errorf("call %d, %s: Close returns %v", n, op, err)
	}
	after := bits(t, tr)
	f = opened(t, dir, opt)
	f.SetFiles(unsynced{})
	switch r := resume(t, f, tr); {
	case len(r.Passed) > 0, r.From.Step != before && (r.From.Step != before+5 || !whole):
		t.Errorf("call %d, %s: resumed %+v", n, op, r)
	case r.From.Step == before && bits(t, tr) != want, r.From.Step != before && bits(t, tr) != after:
		t.Errorf("call %d, %s: other bits than those of step %d", n, op, r.From.Step)
	}
	for _, name := range names(t, dir) {
		if atomicfile.IsTemporary(name) {
			t.Errorf("call %d, %s: %s is left", n, op, name)
		}
	}
	if err := f.Save(ctx, tr); err != nil || f.Err() != nil {
		t.Errorf("call %d, %s: the next save: %v", n, op, err)
	}
	closed(t, f)
	return faults.Calls()
}

// unsynced is the file system without waits for the disk.
type unsynced struct{ atomicfile.OS }

func (u unsynced) Create(path string) (atomicfile.Handle, error) {
	h, err := u.OS.Create(path)
	return unsyncedHandle{h}, err
}

func (unsynced) SyncDir(string) error { return nil }

type unsyncedHandle struct{ atomicfile.Handle }

func (unsyncedHandle) Sync() error { return nil }

var errShort = errors.New("short write")

// Training goes on while nothing can be written, says so, and writes again as soon as it can.
func TestTrainingGoesOnWithoutItsFolder(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 40)
		want := uninterrupted(t, options(dev), ds, 4)
		for name, c := range map[string]struct {
			breaks, heals func(t *testing.T, f *checkpoint.Folder)
			is            error
		}{
			"full":      {func(_ *testing.T, f *checkpoint.Folder) { f.SetFiles(failing("write", syscall.ENOSPC)) }, func(_ *testing.T, f *checkpoint.Folder) { f.SetFiles(atomicfile.OS{}) }, syscall.ENOSPC},
			"read-only": {func(_ *testing.T, f *checkpoint.Folder) { f.SetFiles(failing("create", syscall.EROFS)) }, func(_ *testing.T, f *checkpoint.Folder) { f.SetFiles(atomicfile.OS{}) }, syscall.EROFS},
			"vanished": {func(t *testing.T, f *checkpoint.Folder) {
				if err := os.RemoveAll(f.Dir()); err != nil {
					t.Error(err)
				}
			}, func(t *testing.T, f *checkpoint.Folder) {
				if err := os.Mkdir(f.Dir(), 0o755); err != nil {
					t.Error(err)
				}
			}, fs.ErrNotExist},
		} {
			t.Run(name, func(t *testing.T) {
				var said syncBuffer
				f := opened(t, filepath.Join(t.TempDir(), "run"), checkpoint.Options{EverySteps: 2, Logger: slog.New(slog.NewTextHandler(&said, nil))})
				tr := made(t, options(dev))
				for step, err := range f.Steps(t.Context(), tr, waiting(f, loop.Until(t.Context(), tr, ds, 4))) {
					if err != nil {
						t.Fatal(err)
					}
					switch step.Number {
					case 5:
						c.breaks(t, f)
					case 11:
						if err := f.Err(); !errors.Is(err, c.is) || !errors.Is(err, checkpoint.ErrSave) || f.Stats().Failed != 3 {
							t.Errorf("Err is %v, %+v", err, f.Stats())
						}
						c.heals(t, f)
					case 13:
						if err := f.Err(); err != nil {
							t.Errorf("Err is %v after a checkpoint", err)
						}
					}
				}
				closed(t, f)
				if bits(t, tr) != want {
					t.Error("other bits than without checkpoints")
				}
				if n := strings.Count(said.String(), "level=ERROR"); n != 3 {
					t.Errorf("%d failures were logged, want 3:\n%s", n, said.String())
				}
				f = opened(t, f.Dir(), checkpoint.Options{})
				if r := resume(t, f, made(t, options(dev))); r.From.Step != 20 {
					t.Errorf("resumed %+v", r)
				}
				closed(t, f)
			})
		}
	})
}

// With Options.Fail a checkpoint that cannot be written ends the loop.
func TestTrainingEndsWithoutItsFolderIfAsked(t *testing.T) {
	dev := targets[0].open(t, 0)
	ds := samples(t, 400)
	for _, fit := range []bool{false, true} {
		f, tr := opened(t, t.TempDir(), checkpoint.Options{EverySteps: 2, Fail: true}), made(t, options(dev))
		f.SetFiles(failing("write", syscall.ENOSPC))
		var err error
		if fit {
			_, err = f.Fit(t.Context(), tr, slow(ds, time.Millisecond/4))
		} else {
			for _, err = range f.Steps(t.Context(), tr, waiting(f, tr.Steps(t.Context(), ds))) {
			}
		}
		if !errors.Is(err, checkpoint.ErrSave) || !errors.Is(err, syscall.ENOSPC) || tr.Stats().Steps > 40 {
			t.Errorf("fit %v: %v after %d steps", fit, err, tr.Stats().Steps)
		}
		f.Close()
	}
}

// failing is a file system on which one kind of call fails.
func failing(op string, err error) atomicfile.FS {
	return &atomicfile.Faults{Fail: func(_ int, call, _ string) error {
		if call == op {
			return err
		}
		return nil
	}}
}

// syncBuffer is a buffer for several goroutines.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// A checkpoint that is due while one is being written is put off: the loop does not wait.
func TestTheLoopDoesNotWaitForTheDisk(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 160) // 20 steps
		f, tr := opened(t, t.TempDir(), checkpoint.Options{EverySteps: 2, Keep: -1}), made(t, options(dev))
		disk := make(chan struct{})
		f.SetFiles(&atomicfile.Faults{Fail: func(_ int, op, _ string) error {
			if op == "sync" {
				<-disk
			}
			return nil
		}})
		for step, err := range f.Steps(t.Context(), tr, tr.Steps(t.Context(), ds)) {
			if err != nil {
				t.Fatal(err)
			}
			if step.Number == 13 { // the checkpoint of step 2 is still being written
				if s := f.Stats(); s.Saved != 0 || s.PutOff != 1 {
					t.Errorf("%+v", s)
				}
				close(disk)
				_ = f.Wait()
			}
		}
		closed(t, f)
		// The one of step 4 is taken after 13, and those that were due between are not.
		if got := stepsOf(f); !slices.Equal(got[:2], []int64{2, 13}) {
			t.Errorf("checkpoints of steps %v", got)
		}
		if bits(t, tr) != uninterrupted(t, options(dev), ds, 1) {
			t.Error("other bits than without checkpoints")
		}
	})
}

func TestACheckpointInSeveralFiles(t *testing.T) {
	dev := targets[0].open(t, 0)
	ds, dir := samples(t, 40), t.TempDir()
	opt := checkpoint.Options{EverySteps: 1, Keep: 1, ShardBytes: 300}
	f, tr := opened(t, dir, opt), made(t, options(dev))
	trainTo(t, f, tr, ds, 3)
	closed(t, f)
	all := names(t, dir)
	if c := f.Checkpoints(); len(c) != 1 || c[0].Name != "step-000000000003.safetensors.index.json" || len(all) < 4 {
		t.Errorf("%+v, files %q", c, all)
	}
	size := int64(0)
	for _, n := range all {
		if !strings.HasPrefix(n, "step-000000000003") {
			t.Errorf("%s is left", n)
		}
		info, err := os.Stat(filepath.Join(dir, n))
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	if got := f.Checkpoints()[0].Bytes; got != size {
		t.Errorf("%d bytes, want %d", got, size)
	}
	// What a killed process leaves: files without an index, and temporary ones.
	for _, n := range []string{"step-000000000004-0123abcd-00001-of-00002.safetensors", ".step-000000000004.safetensors.tmp-abc"} {
		if err := os.WriteFile(filepath.Join(dir, n), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f = opened(t, dir, opt)
	if got := names(t, dir); !slices.Equal(got, all) {
		t.Errorf("files %q, want %q", got, all)
	}
	again := made(t, options(dev))
	resume(t, f, again)
	if bits(t, again) != bits(t, tr) {
		t.Error("other bits")
	}
	closed(t, f)
}

// Both errors of a loop and of its folder are seen after a fault of the dataset.
func TestAnErrorOfTheLoopIsYieldedOnce(t *testing.T) {
	dev := targets[0].open(t, 0)
	f, tr := opened(t, t.TempDir(), checkpoint.Options{EverySteps: 1}), made(t, options(dev))
	broken, n := errors.New("broken"), 0
	steps := func(yield func(trainer.Step, error) bool) { yield(trainer.Step{}, broken) }
	for _, err := range f.Steps(t.Context(), tr, steps) {
		if n++; err != broken {
			t.Errorf("got %v", err)
		}
	}
	if n != 1 {
		t.Errorf("%d errors", n)
	}
	closed(t, f)
}
