// Package dataloader reads samples into the slots of a trainer ahead of their use, in an order
// fixed by a seed.
//
// A [Dataset] is a source of samples, read by index. All samples have the same fields, each a
// [Field], and Fetch writes one sample to memory of the caller. [FromSlices], [MNIST], [CIFAR10],
// [CIFAR100], [OpenIDX] and [Indices] make datasets; [Map], [Select], [Subset] and [Split] make
// datasets of others. [Check] validates one.
//
// A [Loader] has the workers, goroutines that fetch samples, and the order of the samples in each
// epoch. Its [Loader.Epoch] starts a [Run], one pass over the data: [Run.Next] returns a filled
// [Slot], and [Run.Release] gives the slot back to be filled again.
//
//	           Release(slot, ready)                   Next
//	trainer ───────────────────────► free ─ workers ─► filled ───────► trainer
//	                 refilled after ready.Sync() returns     in the order of steps
//
// ready.Sync returns when the slot may be overwritten.
//
// Samples are written in place into the slots of the caller, in their storage types. The loader
// itself keeps 8 bytes for each row of a slot; the order is computed and takes no memory. A run keeps
// a few bytes more for each slot. A step allocates nothing. Workers wait while no slot is free.
// [Run.Stalls] says who waited for whom.
//
// Samples, their order and their random draws depend only on the seed, the epoch and the sample's
// index, never on the number of workers. So a few numbers are the position in a run: seed, epoch and
// step, from which [Loader.EpochFrom] goes on, and the [Fingerprint] of the data. A [Sampler] chooses
// another order. Options.Rank and Options.Ranks share each batch among processes.
//
// Some data are decoded block by block: row groups of a table, frames of a compressed file.
// [FromBlocks] makes a dataset of them that keeps a few decoded blocks, in memory that is used again.
// Over such a dataset, which is [Blocked], a loader shuffles the blocks, and samples within a few
// blocks at a time, and decodes the next blocks ahead: each once in an epoch.
package dataloader
