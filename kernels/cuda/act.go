package cuda

import "github.com/evenkeel/evenkeel/kernels"

//go:generate go -C ../../internal/gen run ./cuda -dir ../../kernels/cuda

// Activations as act.cuh numbers them.
const (
	actNone int32 = iota
	actRelu
	actLeaky
	actSigmoid
	actTanh
)

// activation returns the number of an activation, and the slope of a leaky one.
func activation(act *kernels.Op, attrs any) (number int32, slope float64) {
	switch act {
	case kernels.ReLU:
		return actRelu, 0
	case kernels.LeakyReLU:
		return actLeaky, attrs.(kernels.LeakyReLUAttrs).Slope
	case kernels.Sigmoid:
		return actSigmoid, 0
	case kernels.Tanh:
		return actTanh, 0
	}
	return actNone, 0
}
