// Package layers adds the usual layers to a Gorgonia graph, and the operations that Gorgonia lacks.
//
// A [Net] makes ordinary *gorgonia.Node values, so its layers mix with any Gorgonia code. A [Model] says which
// nodes are fed, learned and minimised. An [Init] says how a parameter starts; no value is made
// until somebody asks for it ([Fill], [Net.Values]), because the same graph is built for many batch sizes.
//
// The operations of this package are ordinary gorgonia.Ops with a plain Do and a symbolic
// gradient: Gorgonia's own machines run and train with them too.
package layers

import (
	// Gorgonia panics at start on a Go release that this package does not know: importing it here makes
	// the minimum version in our go.mod hold for every program that imports us.
	_ "go4.org/unsafe/assume-no-moving-gc"
)
