package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/evenkeel/evenkeel/internal/atomicfile"
	"github.com/evenkeel/evenkeel/internal/folderlock"
	"github.com/evenkeel/evenkeel/trainer"
)

// Folder is a folder of checkpoints of one run, which it has locked, but with Options.ReadOnly.
// Steps, Fit, Resume, Measured and Save are for the goroutine that trains; the other methods may be
// called from any.
type Folder struct {
	dir string
	opt Options
	log *slog.Logger
	now func() time.Time
	// files is the operating system's, but in tests.
	files atomicfile.FS
	// watching is called before the watch of Fit captures, in tests; else it is nil.
	watching func(ended <-chan struct{})

	schedule  schedule
	requested atomic.Bool // by Request
	waiting   bool        // a checkpoint is due and waits for the one that is being written
	order     uint64      // largest RestoreOptions.Order so far
	rate      float64     // product of all RestoreOptions.RateFactor
	occupied  string      // name of the newest checkpoint of a run that is not resumed; "": none
	measured  measured
	captured  int64 // step of the last checkpoint that was begun, -1: none
	brokenOff int64 // last step of a pass of Fit that ended before its epoch, -1: none
	begun     bool  // the intervals have begun
	rollbacks int   // that were tried
	writer    writer

	mu      sync.Mutex
	lock    *folderlock.Lock
	all     []Checkpoint // that can be read, as far as is known; oldest first
	damaged []Checkpoint // that could not be read
	stats   Stats
	err     error // of the last save, nil if it succeeded
	stopped bool
	closed  bool
}

// Stats are counts since Open.
type Stats struct {
	Saved      int           // checkpoints that were written
	Failed     int           // that could not be written
	PutOff     int           // that were due while one was being written, and were taken later
	RolledBack int           // faults after which training went on from a checkpoint
	Last       Checkpoint    // the last one that was written
	LastTime   time.Duration // that writing it took
}

// Open makes the folder if there is none, and locks it: if another process has it, the error is a
// *LockedError. The lock of a process that has died does not count. Files that a dead process has
// left unfinished are removed. A folder that cannot be written to is a *ReadOnlyError. With
// Options.ReadOnly none of this is done, and a folder that does not exist is an error. The caller
// closes the folder.
func Open(dir string, opt Options) (*Folder, error) {
	f, err := openFolder(dir, opt)
	if err != nil {
		return nil, fmt.Errorf("open checkpoints: %w", err)
	}
	return f, nil
}

func openFolder(dir string, opt Options) (*Folder, error) {
	if opt.grouped() && !opt.ReadOnly {
		return openTogether(dir, opt)
	}
	return openAlone(dir, opt)
}

// openAlone is openFolder for one rank.
func openAlone(dir string, opt Options) (*Folder, error) {
	if err := opt.check(); err != nil {
		return nil, err
	}
	if dir == "" {
		return nil, fmt.Errorf("no folder: %w", trainer.ErrOption)
	}
	var lock *folderlock.Lock
	if opt.writes() {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
		var err error
		if lock, err = acquire(dir); err != nil {
			return nil, refused(dir, err)
		}
	}
	f := &Folder{dir: dir, opt: opt, log: opt.Logger, now: time.Now, schedule: opt.schedule(), captured: -1, brokenOff: -1, lock: lock, files: atomicfile.OS{}, rate: 1}
	if f.log == nil {
		f.log = slog.New(slog.DiscardHandler)
	}
	f.log = f.log.With("folder", dir)
	if err := f.read(); err != nil {
		return nil, errors.Join(refused(dir, err), lock.Release())
	}
	f.writer.open(f.write)
	return f, nil
}

// refused returns the error of a folder that cannot be opened to write.
func refused(dir string, err error) error {
	if errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission) {
		return &ReadOnlyError{dir, err}
	}
	return err
}

// read lists the checkpoints that exist, with the metrics in their headers, and removes what a dead
// process has left.
func (f *Folder) read() error {
	if f.opt.writes() {
		if err := f.sweep(); err != nil {
			return err
		}
	}
	all, err := list(f.dir)
	if err != nil {
		return err
	}
	for _, c := range all {
		if got, err := describe(f.dir, c); err != nil {
			f.log.Warn("a checkpoint cannot be read", "name", c.Name, "error", err)
			f.damaged = append(f.damaged, c)
		} else {
			f.all = append(f.all, got)
		}
		f.occupied = c.Name
	}
	return nil
}

// Dir returns the folder's path.
func (f *Folder) Dir() string { return f.dir }

// Path returns the path of a checkpoint.
func (f *Folder) Path(c Checkpoint) string { return filepath.Join(f.dir, c.Name) }

// Checkpoints returns the checkpoints, oldest first, without those that are known to be unreadable.
// The caller owns the slice.
func (f *Folder) Checkpoints() []Checkpoint {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.all)
}

// Best returns the checkpoint with the best result; ok is false if there is none.
func (f *Folder) Best() (best Checkpoint, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := f.opt.Best.of(f.all)
	if i < 0 {
		return Checkpoint{}, false
	}
	return f.all[i], true
}

// Stats returns what has been counted since Open.
func (f *Folder) Stats() Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stats
}

// Err returns the *SaveError of the last checkpoint, or nil if it was written.
func (f *Folder) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// Stopped reports whether Options.Stop has ended a loop.
func (f *Folder) Stopped() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stopped
}

// Wait waits until the checkpoint that is being written, if any, is complete or has failed. It
// returns Err.
func (f *Folder) Wait() error {
	f.writer.wait()
	return f.Err()
}

// Close waits for the checkpoint that is being written, and unlocks the folder. It returns Err. A
// second call does nothing.
func (f *Folder) Close() error {
	f.mu.Lock()
	first := !f.closed
	f.closed = true
	f.mu.Unlock()
	if !first {
		return nil
	}
	f.writer.close()
	f.mu.Lock()
	defer f.mu.Unlock()
	return errors.Join(f.err, f.lock.Release())
}

// errClosed returns the error of a folder that is closed.
func (f *Folder) errClosed() error { return fmt.Errorf("checkpoints in %s: %w", f.dir, ErrClosed) }

// errNilContext is the error of a call without a context.
var errNilContext = fmt.Errorf("nil context: %w", trainer.ErrOption)

// isClosed reports whether the folder is closed.
func (f *Folder) isClosed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closed
}
