// Package group lets several ranks work as one: it sums, compares and exchanges numbers between
// them, and it ends them all with a named cause when one of them fails.
//
// A [Group] is one rank's membership; ranks are numbered from 0. [Local] makes a group of goroutines
// of one process, for several devices; package group/mpi joins the processes that mpirun started.
//
// [Group.Prepare] makes an [Operation] on fixed memory. It runs as often as needed:
//
//	grads, err := g.Prepare(group.Op{Kind: group.Sum, Type: arena.Float32, Data: bucket, Label: "grads"})
//	…
//	err = grads.Start() // returns at once
//	…                   // compute something else
//	err = grads.Wait()  // bucket now holds the sum of all ranks
//
// All ranks start the same operations in the same order. They are computed in that order, one after
// the other. [Run] starts and waits; [Exchange] collects bytes of any lengths.
//
// # Failures
//
// Nothing waits for ever. When a rank dies, gives up ([Group.Abort]), does not come within
// [Options].Limit or starts another operation than the rest, the group is broken: all pending and
// later operations of all ranks return the same [*RankError], which names the rank and the cause.
// A broken group stays broken. [ExitCode] is the status with which a program ends then.
//
// # Bits
//
// Local sums in the order of the ranks, so results do not depend on timing: (x0 + x1) + x2 … for
// each element. Another engine may add in another order, the same in each run with the same ranks;
// with [Options].Strict it adds as Local does. Max and sums of integers are the same everywhere.
package group
