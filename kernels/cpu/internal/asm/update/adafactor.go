package update

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"

// FactorScalars are the arguments that all passes of Adafactor share. The assembly reads the fields
// at fixed offsets.
type FactorScalars struct {
	Scale, Max, Min float64 // a prepared gradient is clip(Scale·g, Min, Max)
	Epsilon         float64 // added to squares
	Decay           float64 // weight decay, times the learning rate
}

// FactorPasses are Adafactor's passes over a row of a gradient at one level, for one type. Assembly
// needs a multiple of FactorRun elements. In the formulas g is the prepared gradient.
type FactorPasses[T asm.Float] struct {
	// Sums += g² + Epsilon; returns Σ(g² + Epsilon).
	Squares func(sums []float64, g []T, by *FactorScalars) float64
	// Returns Σ(g·columns)².
	Measure func(columns []float64, g []T, by *FactorScalars) float64
	// p -= step·(g·columns) + Decay·p.
	Apply func(p, g []T, columns []float64, by *FactorScalars, step float64)
}

// FactorRun is the number of elements that assembly processes at once.
const FactorRun = 16

// FactorPassesAt returns the passes of level l.
func FactorPassesAt[T asm.Float](l asm.Level) *FactorPasses[T] {
	var t T
	if _, single := any(t).(float32); single {
		return any(factorPasses32(l)).(*FactorPasses[T])
	}
	return goFactorPasses[T]()
}

// goFactorPasses returns the Go twins.
func goFactorPasses[T asm.Float]() *FactorPasses[T] {
	return &FactorPasses[T]{goFactorSquares[T], goFactorMeasure[T], goFactorApply[T]}
}

// prepared returns a prepared element of the gradient.
func prepared[T asm.Float](g T, by *FactorScalars) float64 {
	v := float64(g) * by.Scale
	if v > by.Max {
		return by.Max
	}
	if v < by.Min {
		return by.Min
	}
	return v
}

// goFactorSquares is FactorPasses.Squares.
func goFactorSquares[T asm.Float](sums []float64, g []T, by *FactorScalars) float64 {
	total := 0.0
	for j, x := range g {
		v := prepared(x, by)
		v = v*v + by.Epsilon
		total += v
		sums[j] += v
	}
	return total
}

// goFactorMeasure is FactorPasses.Measure.
func goFactorMeasure[T asm.Float](columns []float64, g []T, by *FactorScalars) float64 {
	total := 0.0
	for j, x := range g {
		u := prepared(x, by) * columns[j]
		total += u * u
	}
	return total
}

// goFactorApply is FactorPasses.Apply.
func goFactorApply[T asm.Float](p, g []T, columns []float64, by *FactorScalars, step float64) {
	for j, x := range g {
		v := float64(p[j])
		p[j] = T(v - step*(prepared(x, by)*columns[j]) - by.Decay*v)
	}
}
