// Package cuda is an NVIDIA GPU as a device.
//
// [Open] opens one. It needs the build tag gpu, cgo, and CUDA's cuda.h and libcuda.so; without the
// tag it returns [ErrNotBuilt]. At run time it needs the driver only: kernels are PTX, embedded in
// the package, which the driver compiles for its GPU. [Options] select the GPU, the precision of
// products, and cuBLAS.
//
// Device.Bind turns each call into a list of steps: kernels to launch, copies, fills. It captures
// the steps of a program into a CUDA graph once, and each launch replays that graph. The choice of
// steps is plain Go, which is compiled and tested without the tag, too.
package cuda
