package cuda

// Options configure Open. The zero value is a good default.
type Options struct {
	// Device is the number of the GPU, as nvidia-smi counts those in CUDA_VISIBLE_DEVICES. 0: the
	// first.
	Device int
	// Memory limits device memory, in bytes. 0: all that the GPU has, which is always an upper
	// limit.
	Memory int64
	// Graphs selects how programs are launched. Auto, the default: as CUDA graphs if the driver
	// can.
	Graphs Graphs
	// Sync waits for the device after each step of a program, so that an error names the call that
	// caused it. It is slow, and excludes graphs.
	Sync bool
	// Products is the precision of those float32 MatMul calls whose MatMulAttrs.ComputeType is 0.
	// Full, the default: float32. The others round factors and use the tensor cores of GPUs since
	// compute capability 8.0, for operands whose rows are multiples of 16 bytes; all else stays in
	// full precision. A model with trainer.Options.Precision is computed with that precision in any
	// case, on tensor cores if there are any.
	Products Precision
	// CuBLAS computes MatMul by NVIDIA's cuBLAS, except calls that round their factors to 16 bits.
	// Open loads libcublas.so.13, .12 or .11, and returns a *NoLibraryError if there is none.
	// Results repeat bit for bit. But under trainer.GuardEach, which computes some rows of a large
	// gradient at a time, they may differ in the last bits from those under GuardStep. It costs 32
	// MiB of the plan (4 MiB before Hopper), a workspace that all such products share.
	CuBLAS bool
}

// Graphs is a way to launch programs.
type Graphs int

const (
	// Auto captures a program into a graph if the driver can, which Open tries once: see
	// Device.Graphs.
	Auto Graphs = iota
	// Never launches kernels one by one.
	Never
)

// properties are the properties of a GPU that launches depend on.
type properties struct {
	name         string
	capability   int // to compute: 80 for 8.0
	processors   int // streaming multiprocessors
	warp         int // threads
	threads      int // most in a block
	shared       int // bytes of shared memory of a block, by default
	sharedMost   int // the same, at most
	gridX, gridY int // most blocks; z has the limit of y
	precision    Precision
	cublas       bool // computes MatMul
}
