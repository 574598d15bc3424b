// Package layers adds the usual layers of neural networks to a Gorgonia graph.
//
// [New] returns a [Net] for a graph. Its methods add layers and return ordinary *gorgonia.Node
// values, so that layers mix with any Gorgonia code. Every layer has a name; the names of its
// parameters begin with it. By input:
//
//	rows    [B, In]       Dense, BatchNorm
//	images  [B, C, H, W]  Conv, MaxPool, AvgPool, GlobalAvgPool, BatchNorm
//	indices [B] or [B, T] Embedding
//	sequences [B, T, In]  LSTM, GRU, Attention; LSTMCell and GRUCell are one step [B, In]
//	any     [B, ...]      Flatten, Residual, Dropout, LayerNorm, GroupNorm, and activations: ReLU, LeakyReLU, Sigmoid, Tanh,
//	                      Erf, GELU, GELUTanh, SiLU, Softplus, ELU, HardSwish, Clamp
//
// The names of activations may be empty.
//
// Operations are layers without parameters, on values of any shape, whose names may be empty:
//
//	arithmetic   Add, Sub, Mul, Div, Pow, Maximum, Minimum; shapes broadcast as in NumPy
//	elements     Exp, Expm1, Log, Log1p, Sqrt, Square, Abs, Neg, Reciprocal, Sin, Cos, Affine, Power
//	comparisons  Less, LessEqual, Greater, GreaterEqual, Equal, NotEqual
//	reductions   Sum, Mean, Max, Min, Prod, Norm, LogSumExp, Variance; along any axes
//	lines        Softmax, LogSoftmax, CumSum, TopK, ArgMax; along any axis
//	histograms   ScatterSum
//	products     MatMul of matrices, vectors and batches; Einsum
//	parts        Slice, At, Split
//	shapes       Reshape, Transpose, Repeat, Concat, Stack
//	values       Constant, Cast, Where
//
// Losses return one number for each row of the batch. All but CrossEntropy and CrossEntropyOneHot
// may have no name:
//
//	numbers   SquaredError, AbsoluteError, Huber, Hinge, BinaryCrossEntropy
//	classes   CrossEntropy, CrossEntropySmooth, CrossEntropyOneHot, MultiHinge, KLDivergence, KLDivergenceLogits
//	pairs     CosineEmbedding, Contrastive, Triplet, InfoNCE; CosineSimilarity, Normalize
//	weights   ClassWeights, Ignore
//
// Scope prefixes the names of a part of a model, Shared lets a layer read several inputs, Parameter
// ties weights, and Scalar is a number that is set while a model trains.
//
// Gorgonia makes one node of two whose hashes are equal, and its hashes ignore parts of some
// operations, such as the high bits of a slice's bounds. Nodes of this package are never merged.
//
// Classifier, ClassifierOneHot, Regressor and Autoencoder add the loss and return a [Model]: the
// nodes that are fed, learned and minimised. [Net.Model] does with any losses. A trainer builds the
// model anew for each batch size.
//
// An [Init] computes the initial values of a parameter. The graph itself holds none; the trainer
// fills its memory with [Fill], and [Net.Values] binds values for Gorgonia's own machines.
//
// A mistake, such as a shape that does not fit, is an error with the names and the shapes. The net
// keeps the first one: [Net.Err] returns it, and so do the methods that return a Model. Layers
// after an error return nil; [Failed] finds the error in the graph.
//
// The operations that Gorgonia lacks are gorgonia.Ops with a symbolic gradient. Gorgonia's own
// machines run and train with them too, but slowly.
package layers

import (
	// Gorgonia panics at start on a Go release that this package does not know. The import makes
	// the minimum version in our go.mod apply to every program that imports us.
	_ "go4.org/unsafe/assume-no-moving-gc"
)
