// Package cpu is the host as a device: plain Go, and generated assembly for processors that have
// the instructions.
//
// [Open] returns a [Device]; [Options] select its threads, memory and [Instructions]. Its memory is
// the host's own (unified), so that a loader writes where the kernels read. A stream runs its work
// at once, in the goroutine that enqueues it; the kernels themselves are parallel, over one pool of
// workers that exists from Open to Close. The shapes of its operands, and never the number of
// workers, determine how a kernel divides its work, so that results are the same bit for bit for
// any number of threads.
//
// Assembly treats denormal numbers as 0 and produces none: they slow a processor down many times,
// and values that decay towards zero for long, such as an optimizer's second moments, become
// denormal. It sets the processor's mode for its own duration only. Plain Go computes with denormal
// numbers exactly, and kernels that only select or move elements keep them.
//
// Products whose factors are rounded to 16 bits round them as they pack them: to float32, or to
// pairs of bfloat16 on processors with AVX512-BF16.
package cpu
