package cuda

import (
	"errors"
	"fmt"
	"strings"

	"github.com/evenkeel/evenkeel/arena"
)

// ErrNotBuilt is the error of all calls in a program that was built without the tag gpu.
var ErrNotBuilt = errors.New("built without GPUs: build with -tags gpu, cgo, and CUDA's cuda.h")

// ErrPoisoned is the error of all calls after an earlier error, which it wraps, made the device's
// context unusable. The device must be closed and opened anew.
var ErrPoisoned = errors.New("the device is unusable after a fatal error")

// NoDeviceError is the error of Open for a GPU that does not exist. It wraps nothing.
type NoDeviceError struct {
	Device  int // Options.Device
	Devices int // the number of GPUs
}

func (e *NoDeviceError) Error() string {
	if e.Devices == 1 {
		return fmt.Sprintf("cuda: no device %d: there is 1, number 0", e.Device)
	}
	return fmt.Sprintf("cuda: no device %d: there are %d, numbered from 0", e.Device, e.Devices)
}

// NoLibraryError is the error of Open for cuBLAS, and of Join for NCCL, if the library is not found.
type NoLibraryError struct {
	Library string   // "cuBLAS" or "NCCL"
	Names   []string // libraries that were tried
	Reasons []string // the system's message for each
}

func (e *NoLibraryError) Error() string {
	without := "leave Options.CuBLAS unset"
	if e.Library == "NCCL" {
		without = "train without Device.Join"
	}
	return fmt.Sprintf("%s was not found: looked for %s (%s): install it and add its folder to LD_LIBRARY_PATH, or %s",
		e.Library, strings.Join(e.Names, ", "), strings.Join(e.Reasons, "; "), without)
}

// BLASError is the error of a call of cuBLAS.
type BLASError struct {
	Call string // "cublasGemmStridedBatchedEx"
	Code int    // cublasStatus_t
	Name string // of the code: "CUBLAS_STATUS_NOT_SUPPORTED"
}

func (e *BLASError) Error() string { return fmt.Sprintf("%s: %s (%d)", e.Call, e.Name, e.Code) }

// Unwrap returns arena.ErrCapacity if cuBLAS had too little memory, else nil.
func (e *BLASError) Unwrap() error {
	if e.Code == 3 {
		return arena.ErrCapacity
	}
	return nil
}

// DriverError is the error of a call of the driver.
type DriverError struct {
	Call string // "cuMemAlloc"
	Code int    // CUresult
	Name string // of the code: "CUDA_ERROR_OUT_OF_MEMORY"
}

func (e *DriverError) Error() string {
	return fmt.Sprintf("%s: %s (%d)%s", e.Call, e.Name, e.Code, hints[e.Code])
}

// Unwrap returns arena.ErrCapacity if the driver had too little memory: for an arena, for kernels
// or for a graph; else nil.
func (e *DriverError) Unwrap() error {
	if e.Code == codeOutOfMemory {
		return arena.ErrCapacity
	}
	return nil
}

// codeOutOfMemory is the driver's code for too little memory. The context stays usable.
const codeOutOfMemory = 2

// hints are known causes and remedies, by code.
var hints = map[int]string{
	2:   ": device memory is short",
	100: ": no GPU is visible: see nvidia-smi and CUDA_VISIBLE_DEVICES",
	218: ": the driver cannot compile the PTX",
	222: ": the driver is too old for this PTX: it must be 470 or newer",
	700: ": a kernel used memory that is not its own",
	701: ": a block needs more registers or shared memory than the GPU has",
	716: ": a kernel used an address that is not aligned",
	719: ": a kernel failed",
	802: ": the GPU is not ready: is the driver's service running?",
	803: ": the driver in the kernel and libcuda.so are of two versions",
}
