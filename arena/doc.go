// Package arena plans memory and holds it: it gives every buffer an offset before anything is
// allocated, and allocates one block once.
//
// A program is a list of instructions, numbered from 0; each is at most one kernel call.
//
// Planning: a [Problem] lists buffers with sizes and live ranges. [Solve] returns a [Plan], an
// offset for each buffer such that no two live buffers overlap. [Check] proves a plan.
//
// Holding: a [Layout] lists regions and the named parts in them. [New] allocates the total of a
// layout on a [Device]: the [Arena]. A [Handle] reads and writes a range of it; after [Arena.Reset]
// of its region it fails with [ErrStale].
//
// Debugging: a [Sentry] finds instructions that write outside their buffers.
//
// [Device], [Memory], [Stream] and [Event] are the interfaces that a device implements.
package arena
