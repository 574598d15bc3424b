package cuda

// Options say what Open opens. The zero value is a good default.
type Options struct {
	// Device is the number of the GPU, as nvidia-smi counts those that CUDA_VISIBLE_DEVICES leaves.
	Device int
	// Memory is the size in bytes that the device pretends to have. 0: all that it has, which
	// remains the limit.
	Memory int64
	// Graphs says whether programs are CUDA graphs.
	Graphs Graphs
	// Sync waits for the device after each step of a program, so that what goes wrong on it is
	// blamed on the call that did it. It is slow, and programs are no graphs then.
	Sync bool
	// Products is the precision of MatMul on float32 whose attributes do not say what factors are
	// rounded to, Full unless asked otherwise. Others use the tensor cores of GPUs since compute
	// capability 8.0, for operands whose rows are multiples of 16 bytes; the rest stays in full
	// precision, as all else does. A model that asks for 16 bits itself (trainer.Options.Precision)
	// has them whatever this says, on tensor cores where there are any.
	Products Precision
	// CuBLAS computes MatMul, but where a call has its factors rounded to 16 bits, by NVIDIA's
	// cuBLAS, which is loaded when the device is opened: libcublas.so.13, .12 or .11. Where none is
	// found, Open answers a *NoLibraryError. Results repeat bit for bit, but rows of a product
	// computed alone (trainer.GuardEach does that to large gradients) may differ from those of the
	// whole in the last bits. Every such product has a workspace of 32 MiB in the plan (4 MiB
	// before Hopper), shared in turn.
	CuBLAS bool
}

// Graphs says how programs are launched.
type Graphs int

const (
	// Auto captures a program into a graph where the driver can, which is tried once when the
	// device is opened: Device.Graphs tells.
	Auto Graphs = iota
	// Never launches kernel by kernel.
	Never
)

// properties are what launches depend on.
type properties struct {
	name         string
	capability   int // to compute: 80 for 8.0
	processors   int // streaming multiprocessors
	warp         int // threads
	threads      int // most in a block
	shared       int // bytes a block may have without asking
	sharedMost   int // bytes a block may have
	gridX, gridY int // most blocks; those of z are as many as those of y
	precision    Precision
	cublas       bool // computes MatMul
}
