// Package cuda is an NVIDIA GPU as a device.
//
// [Open] opens one. It needs the build tag gpu, cgo, and CUDA's cuda.h and libcuda.so; without the
// tag it returns [ErrNotBuilt]. At run time it needs the driver only: kernels are PTX, embedded in
// the package, which the driver compiles for its GPU. [Options] select the GPU, the precision of
// products, and cuBLAS.
//
// The translation of operations is plain Go, with and without the tag: [kernels.Device.Bind] turns
// each call into a list of steps (kernels to launch, copies, fills), by the function that the table
// has for the operation. With the tag, the steps of a program are captured into a CUDA graph once,
// and each launch replays it.
package cuda
