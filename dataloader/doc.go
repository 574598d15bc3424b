// Package dataloader fills the places of a batch ahead of whoever consumes them, in an order fixed by a seed.
//
// A Dataset says how many samples there are, which fields each has, in which storage type, and writes one sample
// into memory that it is given. A Loader owns the workers and the order of an epoch. A Run is one pass over the
// data: Next hands out a filled Slot, Release gives it back to be filled again.
//
//	           Release(slot, copied)                  Next
//	trainer ───────────────────────► free ─ workers ─► filled ───────► trainer
//	                  refilled once copied.Sync() returned    in order of steps
//
// The memory of a run is the slots that the caller passes, 4 bytes a sample for the order, and nothing else: samples
// are written in place, in the type in which they are stored, and a step allocates nothing. A consumer that stops
// releasing stops the readers.
//
// What is read, in which order, and every random draw of a sample depend on the seed, the epoch and the sample's
// index alone, never on the number of workers.
package dataloader
