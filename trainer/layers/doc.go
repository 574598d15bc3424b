// Package layers adds the usual layers to a Gorgonia graph, and the operations that Gorgonia lacks.
//
// A [Net] makes ordinary *gorgonia.Node values, so its layers mix with any Gorgonia code. A [Model] says which
// nodes are fed, learned and minimised. An [Init] says how a parameter starts; no value is made
// until somebody asks for it ([Fill], [Net.Values]), because the same graph is built for many batch sizes.
//
// The layers, by what they take; every one has a name, which its parameters begin with:
//
//	rows    [B, In]       Dense, BatchNorm, Softmax
//	images  [B, C, H, W]  Conv, MaxPool, AvgPool, GlobalAvgPool, BatchNorm
//	indices [B] or [B, T] Embedding
//	any     [B, ...]      Flatten, Residual, Dropout, LayerNorm, GroupNorm, ReLU, LeakyReLU, Sigmoid, Tanh
//
// Classifier, ClassifierOneHot, Regressor and Autoencoder end a model with its loss. What does not fit is an error
// that names the layer and the shapes, kept by the net until somebody asks: [Net.Err], or whatever makes the model.
//
// The operations of this package are ordinary gorgonia.Ops with a plain Do and a symbolic
// gradient: Gorgonia's own machines run and train with them too, slowly, by the references of package kernels.
package layers

import (
	// Gorgonia panics at start on a Go release that this package does not know: importing it here makes
	// the minimum version in our go.mod hold for every program that imports us.
	_ "go4.org/unsafe/assume-no-moving-gc"
)
