package mpi

import (
	"fmt"
	"strconv"
	"time"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/group"
)

// Options are those of Open. The zero value is a good default.
type Options struct {
	group.Options
	// Notes is the folder of the ranks' notes: files of 4 KiB, which ranks of one host must share and
	// which are removed as soon as all have opened them. Default: os.TempDir.
	Notes string
	// Grace is the time for which the group still works after SIGTERM, so that a loop which the signal
	// stops (checkpoint.Signals) can end with a last checkpoint: less than the launcher leaves until
	// SIGKILL. Further signals do not shorten it; a rank that ends without Close does. 0: the group
	// breaks at once.
	Grace time.Duration
}

// BuildError: the program was built without MPI. It wraps arena.ErrOption.
type BuildError struct{}

func (*BuildError) Error() string {
	return "mpi: this program was built without MPI: build it with CC=$(command -v mpicc) go build -tags mpi, on a Unix system with cgo"
}

// Unwrap returns arena.ErrOption.
func (*BuildError) Unwrap() error { return arena.ErrOption }

// LauncherError: the launcher started another number of ranks than MPI sees, because it belongs to
// another MPI library. Without this check each process would be a group of one. It wraps
// arena.ErrOption.
type LauncherError struct {
	Library  string // such as "Open MPI 4.1.4"
	Size     int    // ranks that the library sees
	Variable string // of the environment, set by the launcher
	Value    string // its value
}

func (e *LauncherError) Error() string {
	return fmt.Sprintf("mpi: %s sees %d ranks, but the launcher set %s=%s: start the program with the mpirun of this library "+
		"(srun: with a --mpi that it supports), or unset %s to run one process", e.Library, e.Size, e.Variable, e.Value, e.Variable)
}

// Unwrap returns arena.ErrOption.
func (e *LauncherError) Unwrap() error { return arena.ErrOption }

// checkLauncher returns a *LauncherError if a launcher's variable differs from the size that the
// library sees. SLURM_NTASKS counts only where no other is set: mpirun in a Slurm job may start
// another number of ranks.
func checkLauncher(library string, size int, lookup func(string) (string, bool)) error {
	known := false
	for _, name := range []string{"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"} {
		value, ok := lookup(name)
		if !ok || known && name == "SLURM_NTASKS" {
			continue
		}
		known = true
		if value != strconv.Itoa(size) {
			return &LauncherError{Library: library, Size: size, Variable: name, Value: value}
		}
	}
	return nil
}
