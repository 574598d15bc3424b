//go:build !(mpi && unix && cgo)

package mpi

import (
	"errors"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
)

func TestWithoutMPIOpenStatesHowToBuild(t *testing.T) {
	t.Parallel()
	g, err := Open(Options{})
	var e *BuildError
	if g != nil || !errors.As(err, &e) || !errors.Is(err, arena.ErrOption) || !strings.Contains(err.Error(), "-tags mpi") {
		t.Errorf("%v, %v", g, err)
	}
}
