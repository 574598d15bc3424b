// Package cpu is the host as a device: kernels in Go, over inner kernels in generated assembly.
//
// [Open] returns a [Device]; [Options] select its threads, memory and [Instructions]. Its memory is
// the host's, so a loader that fills a slot writes where the kernels read. A stream runs its work
// at once, in the goroutine that enqueues it; kernels are parallel inside, on one pool of workers
// that exists from Open to Close. A kernel splits its work by the shapes of its operands and never
// by the number of workers, so results have the same bits whatever that number is.
//
// A file holds one family of operations. It opens with what they compute, on which shapes, and how
// the work is split over threads. table.go lists the operations, and elementwise.go is the engine
// of those that are not in the table. Inner kernels, which compute one tile, row or vector, are in
// internal/asm, in assembly and as Go twins; [Options] Instructions chooses between them.
//
// Assembly treats denormal numbers as zero: values that decay towards zero for long, such as an
// optimizer's second moment, become denormal, and they slow a processor down many times. It sets
// the processor's mode for the time of a call only. Go code computes with them exactly, and
// operations that only choose or move elements keep them.
//
// Products whose operands are rounded to 16 bits round them as they pack them: to float32, or to
// pairs of bfloat16 where the processor has AVX512-BF16.
package cpu
