// Package cpu is the host as a device: plain Go, and generated assembly where the processor has it.
//
// [Open] gives a [Device]. Its memory is the host's own, so what a loader writes into a slot is
// where the kernels read. A stream runs its work at once, in the goroutine that enqueues it; what
// is parallel is inside the kernels, over one pool of workers that lives from Open to Close. A
// kernel splits its work by the shapes of its operands and never by the number of workers, so
// results are the same bit for bit whatever that number is.
//
// Assembly takes denormal numbers for 0 and makes none: values that decay towards zero for long,
// such as an optimizer's second moment, meet them, and they slow a processor down many times. It
// sets the processor's mode for itself alone. Plain Go computes with them exactly, and what only
// chooses or moves elements keeps them.
//
// Products whose factors are rounded to 16 bits round them as they pack: to float32, or to pairs of
// bfloat16 where the processor has AVX512-BF16.
package cpu
