package checkpoint

import (
	"time"

	"github.com/evenkeel/evenkeel/internal/atomicfile"
)

// SetFiles replaces the file system that checkpoints are written to.
func (f *Folder) SetFiles(files atomicfile.FS) { f.files = files }

// SetClock replaces the clock.
func (f *Folder) SetClock(now func() time.Time) { f.now = now }
