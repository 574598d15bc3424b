// Package modelcall passes the first error of a layer from package layers to package trainer while
// a model function runs. The function may never return it: Gorgonia panics on the nil node that a
// layer with an error returns.
package modelcall

import (
	"sync"

	"gorgonia.org/gorgonia"
)

var (
	mu    sync.Mutex
	first = make(map[*gorgonia.ExprGraph]error) // by graph of a model function that runs; nil: no error yet
)

// Begin records errors about graph g from now on.
func Begin(g *gorgonia.ExprGraph) {
	mu.Lock()
	defer mu.Unlock()
	first[g] = nil
}

// Fail records err, unless g has an error already or no model function builds it. It may be called
// from any goroutine.
func Fail(g *gorgonia.ExprGraph, err error) {
	mu.Lock()
	defer mu.Unlock()
	if was, building := first[g]; building && was == nil {
		first[g] = err
	}
}

// End ends the recording and returns the first error about g, or nil.
func End(g *gorgonia.ExprGraph) error {
	mu.Lock()
	defer mu.Unlock()
	err := first[g]
	delete(first, g)
	return err
}
