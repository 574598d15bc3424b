package checkpoint_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/evenkeel/evenkeel/trainer/checkpoint"
)

func TestASecondProcessIsToldWhoHasTheFolder(t *testing.T) {
	dir := t.TempDir()
	p := start(t, "hold", dir)
	p.until("held")
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	_, err = checkpoint.Open(dir, checkpoint.Options{})
	var e *checkpoint.LockedError
	if !errors.As(err, &e) || !errors.Is(err, checkpoint.ErrLocked) || e.PID != p.Process.Pid || e.Host != host || e.Dir != dir {
		t.Errorf("got %v, want process %d on %s", err, p.Process.Pid, host)
	}
	// The lock ends with its process, however that ends.
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.Wait()
	f := opened(t, dir, checkpoint.Options{})
	if _, err := checkpoint.Open(dir, checkpoint.Options{}); !errors.As(err, &e) || e.PID != os.Getpid() {
		t.Errorf("twice in one process: %v", err)
	}
	closed(t, f)
	closed(t, f)
	closed(t, opened(t, dir, checkpoint.Options{}))
}

// A process that has lost its folder to another one does not write there.
func TestAFolderThatWasMadeAnewByAnotherProcessIsLeftAlone(t *testing.T) {
	dev := targets[0].open(t, 0)
	dir := filepath.Join(t.TempDir(), "run")
	f, tr := opened(t, dir, checkpoint.Options{}), made(t, options(dev))
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	other := opened(t, dir, checkpoint.Options{})
	if err := f.Save(t.Context(), tr); !errors.Is(err, checkpoint.ErrLocked) || !errors.Is(err, checkpoint.ErrSave) {
		t.Errorf("got %v", err)
	}
	if got := names(t, dir); len(got) > 0 {
		t.Errorf("files %q", got)
	}
	closed(t, other)
	if err := f.Save(t.Context(), tr); err != nil {
		t.Errorf("after the other one has gone: %v", err)
	}
	closed(t, f)
}

func TestAClosedFolderSaysSo(t *testing.T) {
	dev := targets[0].open(t, 0)
	f, tr := opened(t, t.TempDir(), checkpoint.Options{}), made(t, options(dev))
	closed(t, f)
	if err := f.Save(t.Context(), tr); !errors.Is(err, checkpoint.ErrClosed) {
		t.Errorf("Save: %v", err)
	}
	if _, err := f.Resume(t.Context(), tr); !errors.Is(err, checkpoint.ErrClosed) {
		t.Errorf("Resume: %v", err)
	}
	for _, err := range f.Steps(t.Context(), tr, tr.Steps(t.Context(), samples(t, 40))) {
		if !errors.Is(err, checkpoint.ErrClosed) {
			t.Errorf("Steps: %v", err)
		}
	}
}
