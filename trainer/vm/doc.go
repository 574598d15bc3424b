// Package vm runs a Gorgonia graph inside one block of device memory.
//
// [New] compiles a graph that already exists and returns a [Machine]. A Machine is a gorgonia.VM:
// it replaces a tape machine, and the program around it keeps its graph, its loop and its solver.
// [Options] choose the device, limit its memory, and say which values and gradients are kept.
// [Grad] replaces gorgonia.Grad, which knows one loss for each node.
//
// Package trainer is for new models: it also owns the training loop, the optimizer and the data.
package vm
