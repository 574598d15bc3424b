// Package cpu is the host as a device: plain Go, and generated assembly where the processor has it.
//
// [Open] gives a [Device]. Its memory is the host's own, so what a loader writes into a slot is where the kernels read.
// A stream runs its work at once, in the goroutine that enqueues it; what is parallel is inside the kernels, over one
// pool of workers that lives from Open to Close. A kernel splits its work by the shapes of its operands and never by
// the number of workers, so results are the same bit for bit whatever that number is.
//
// The processor's treatment of denormal numbers is left as Go sets it: they are computed exactly, and slowly. Values
// that decay towards zero for long (an optimizer's second moment) can meet them.
package cpu
