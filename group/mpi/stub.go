//go:build !(mpi && unix && cgo)

package mpi

import "github.com/evenkeel/evenkeel/group"

// Open returns a *BuildError: the program was built without MPI.
func Open(Options) (group.Group, error) { return nil, &BuildError{} }
