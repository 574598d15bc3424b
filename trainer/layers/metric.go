package layers

import "gorgonia.org/gorgonia"

// Metric is a number that a pass measures: sums over the rows of each batch, computed on the device,
// and a function of their totals. Package metrics has constructors of the usual ones.
type Metric struct {
	// Name identifies the metric in the results of a pass. Required; no other metric of the model has
	// it.
	Name string
	// Sum has one or more numbers, each of them a sum over the rows of the batch. Its shape does not
	// depend on the number of rows; its type is a float or an integer. The host adds up the sums of
	// all steps of a pass in float64. Model.Weight has no effect on it: multiply what is summed by the
	// weights where they are meant to count, as the constructors of package metrics do. Several
	// metrics may have the same node. Required.
	Sum *gorgonia.Node
	// Value returns the metric from the totals of a pass, one number for each element of Sum. It is
	// called once a pass and must neither keep nor change its argument. Nil: the total of a Sum of one
	// element, divided by the number of samples; NaN for other shapes, whose totals are the result.
	Value func(sum []float64) float64
}
