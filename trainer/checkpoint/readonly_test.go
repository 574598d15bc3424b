package checkpoint_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/evenkeel/evenkeel/trainer/checkpoint"
	"github.com/evenkeel/evenkeel/trainer/loop"
)

// A folder that is read-only is resumed from, also while another process has it, and nothing of it
// changes. What would write says so before it trains.
func TestAReadOnlyFolderIsResumedFrom(t *testing.T) {
	ds, dir := samples(t, 40), t.TempDir()
	opt := options(targets[0].open(t, 0))
	first, tr := opened(t, dir, checkpoint.Options{EverySteps: 2}), made(t, opt) // locks it
	trainTo(t, first, tr, ds, 7)
	if err := first.Wait(); err != nil {
		t.Fatal(err)
	}
	want, leftover := bits(t, tr), filepath.Join(dir, ".step-000000000004.safetensors.tmp-abc")
	if err := errors.Join(os.WriteFile(leftover, []byte("x"), 0o644), os.Chmod(dir, 0o555)); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(dir, 0o755)
	before := names(t, dir)
	defer checkpoint.FailLocks(syscall.EROFS)()
	f, again := opened(t, dir, checkpoint.Options{ReadOnly: true, EverySteps: 2}), made(t, opt)
	for what, call := range map[string]func() error{
		"Save":     func() error { return f.Save(t.Context(), again) },
		"Measured": func() error { return f.Measured(t.Context(), again, nil) },
		"Fit":      func() error { _, err := f.Fit(t.Context(), again, ds); return err },
		"Steps": func() (last error) {
			for _, last = range f.Steps(t.Context(), again, loop.Until(t.Context(), again, ds, 2)) {
			}
			return last
		},
	} {
		for range 2 { // before and after Resume
			var save *checkpoint.SaveError
			if err := call(); !errors.As(err, &save) || save.Step != again.Stats().Steps || !errors.Is(err, checkpoint.ErrReadOnly) || !contains(err, "another folder") {
				t.Errorf("%s: %v", what, err)
			}
			if r := resume(t, f, again); r.From.Step != 7 || bits(t, again) != want {
				t.Errorf("%s: resumed %+v", what, r)
			}
		}
	}
	closed(t, f)
	if got := names(t, dir); !slices.Equal(got, before) {
		t.Errorf("files %q, want %q", got, before)
	}
}

func TestAFolderThatCannotBeLockedSaysHowToReadIt(t *testing.T) {
	for _, cause := range []error{syscall.EROFS, syscall.EACCES} {
		restore := checkpoint.FailLocks(cause)
		_, err := checkpoint.Open(t.TempDir(), checkpoint.Options{})
		restore()
		var e *checkpoint.ReadOnlyError
		if !errors.As(err, &e) || !errors.Is(err, checkpoint.ErrReadOnly) || !errors.Is(err, cause) || !strings.Contains(err.Error(), "Options.ReadOnly") {
			t.Errorf("got %v", err)
		}
	}
	// Other faults are not those of a read-only folder.
	restore := checkpoint.FailLocks(syscall.EIO)
	_, err := checkpoint.Open(t.TempDir(), checkpoint.Options{})
	restore()
	if !errors.Is(err, syscall.EIO) || errors.Is(err, checkpoint.ErrReadOnly) {
		t.Errorf("got %v", err)
	}
	// One that does not exist is not made.
	dir := filepath.Join(t.TempDir(), "none")
	if _, err := checkpoint.Open(dir, checkpoint.Options{ReadOnly: true}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("it was made")
	}
}

// A trainer goes on in another folder from what a read-only one has.
func TestTrainingGoesOnInAnotherFolder(t *testing.T) {
	ds, dir := samples(t, 40), t.TempDir()
	opt := options(targets[0].open(t, 0))
	first, tr := opened(t, dir, checkpoint.Options{}), made(t, opt)
	trainTo(t, first, tr, ds, 7)
	closed(t, first)
	old, again := opened(t, dir, checkpoint.Options{ReadOnly: true}), made(t, opt)
	resume(t, old, again)
	closed(t, old)
	next := opened(t, t.TempDir(), checkpoint.Options{})
	if train(t, next, again, ds, 2); bits(t, again) != uninterrupted(t, opt, ds, 2) {
		t.Error("other bits than without a break")
	}
	closed(t, next)
}
