// Package cpu is the host as a device: kernels in Go, over inner kernels in generated assembly.
//
// [Open] returns a [Device]; [Options] select its threads, memory and [Instructions]. Its memory is
// the host's, so a loader that fills a slot writes where the kernels read. A stream runs its work
// at once, in the goroutine that enqueues it; kernels are parallel inside, on one pool of workers
// that exists from Open to Close. A kernel splits its work by the shapes of its operands and never
// by the number of workers, so results have the same bits whatever that number is.
//
// Inner kernels compute one tile, row or vector. Each exists in assembly and in Go, in
// internal/asm; Options.Instructions chooses between the two.
//
// Assembly treats denormal numbers (below 2^-126 in float32) as zero, because they slow a processor
// down many times: an optimizer's second moment, for example, may decay to such numbers. The
// processor's mode changes for the time of a call only. Go kernels compute with denormal numbers
// exactly, and operations that only choose or move elements keep them.
//
// A product with a 16-bit compute type (kernels.MatMulAttrs) rounds its operands while it copies
// them into tiles. The tiles hold float32, or bfloat16 if the processor has AVX512-BF16.
package cpu
