// Package cuda is an NVIDIA GPU as a device.
//
// [Open] opens one. It needs the build tag gpu, cgo, and CUDA's cuda.h and libcuda.so; without the
// tag it answers [ErrNotBuilt]. At run time nothing but the driver is needed: kernels are PTX,
// embedded in the package, which the driver compiles for its GPU.
//
// What an operation becomes is decided in plain Go, whatever the tag: [kernels.Device.Bind] turns
// each call into a list of steps (kernels to launch, copies, fills), by the function that the
// operation has in the table. With the tag, the steps of a program are captured into a CUDA graph
// once and replayed as one launch.
package cuda
