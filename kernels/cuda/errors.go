package cuda

import (
	"errors"
	"fmt"
	"strings"

	"github.com/evenkeel/evenkeel/arena"
)

// ErrNotBuilt says that the program was built without what a GPU needs.
var ErrNotBuilt = errors.New("built without GPUs: build with -tags gpu, cgo, and CUDA's cuda.h")

// ErrPoisoned says that an earlier error made the device's context unusable. It wraps that error.
// Nothing but closing the device, and opening it anew, helps.
var ErrPoisoned = errors.New("the device is unusable after a fatal error")

// NoDeviceError says that there is no GPU of that number.
type NoDeviceError struct {
	Device  int // asked for
	Devices int // there are
}

func (e *NoDeviceError) Error() string {
	if e.Devices == 1 {
		return fmt.Sprintf("cuda: no device %d: there is 1, number 0", e.Device)
	}
	return fmt.Sprintf("cuda: no device %d: there are %d, numbered from 0", e.Device, e.Devices)
}

// NoLibraryError says that a library that was asked for is not there.
type NoLibraryError struct {
	Names []string // looked for
	Said  []string // by the system, of each
}

func (e *NoLibraryError) Error() string {
	return fmt.Sprintf("cuBLAS was asked for and is not there: looked for %s (%s): install it and name its folder in LD_LIBRARY_PATH, or leave Options.CuBLAS unset",
		strings.Join(e.Names, ", "), strings.Join(e.Said, "; "))
}

// BLASError is a call of cuBLAS that went wrong.
type BLASError struct {
	Call string // "cublasGemmStridedBatchedEx"
	Code int    // cublasStatus_t
	Name string // of the code: "CUBLAS_STATUS_NOT_SUPPORTED"
}

func (e *BLASError) Error() string { return fmt.Sprintf("%s: %s (%d)", e.Call, e.Name, e.Code) }

// Unwrap returns arena.ErrCapacity where memory was short.
func (e *BLASError) Unwrap() error {
	if e.Code == 3 {
		return arena.ErrCapacity
	}
	return nil
}

// DriverError is a call of the driver that went wrong.
type DriverError struct {
	Call string // "cuMemAlloc"
	Code int    // CUresult
	Name string // of the code: "CUDA_ERROR_OUT_OF_MEMORY"
}

func (e *DriverError) Error() string {
	return fmt.Sprintf("%s: %s (%d)%s", e.Call, e.Name, e.Code, hints[e.Code])
}

// Unwrap returns arena.ErrCapacity where memory was short, whatever was asked for: an arena, a
// module, a graph.
func (e *DriverError) Unwrap() error {
	if e.Code == codeOutOfMemory {
		return arena.ErrCapacity
	}
	return nil
}

// codeOutOfMemory is the driver's answer where memory does not suffice. Nothing is wrong with the
// context after it.
const codeOutOfMemory = 2

// hints say what to do, where that is known.
var hints = map[int]string{
	2:   ": device memory is short",
	100: ": no GPU is visible: see nvidia-smi and CUDA_VISIBLE_DEVICES",
	218: ": the driver cannot compile the PTX",
	222: ": the driver is too old for this PTX: it must be 470 or newer",
	700: ": a kernel used memory that is not its own",
	701: ": a block asks for more registers or shared memory than there are",
	716: ": a kernel used an address that is not aligned",
	719: ": a kernel failed",
	802: ": the GPU is not ready: is the driver's service running?",
	803: ": the driver in the kernel and libcuda.so are of two versions",
}
