// Package onnx imports ONNX models, and exports models to ONNX.
//
// [Open] reads a file as PyTorch's exporters write it, with tensors in other files next to it. It
// imports all nodes at once: what is not supported is one error that lists every such node, and
// broken files are a [FormatError]. Arithmetic with shapes and other constants is computed then,
// for the batch that is asked for; the rest becomes operations of package kernels. A [Model] is
// used in two ways:
//
//	trainer.NewPredictor(ctx, m.Build, options)   predicts; trainer.PlanPredictor announces the bytes
//	m.Nodes(net.Scope("trunk"), x)                adds it to a model function of your own, to train with a new head
//
// [Model.Report] says what an exporter has folded or shared. [Operators] lists the operators;
// docs/onnx.md has their limits. The rules for operators are in the files rule_*.go, one family
// each: a rule takes a [call], adds operations, and refuses what it does not compute.
package onnx
