// Package plot draws curves of training as SVG and PNG.
//
// A [Figure] is plain data: panels with axes, series of points, and marks. [RangeTest] makes one of
// a learning-rate range test, [Training] one of the steps, epochs and evaluations of a run.
// [Figure.Save] writes the file.
//
// gonum.org/v1/plot draws. Only programs that import this package link it.
package plot
