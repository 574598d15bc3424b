// Package mpi joins the processes that mpirun or srun started to one group, over the MPI library of
// the machine or cluster.
//
// Build the program with the tag mpi and the compiler of that MPI; without them Open returns a
// [*BuildError]:
//
//	CC=$(command -v mpicc) go build -tags mpi ./train
//	mpirun -n 4 ./train
//
// A program opens its group once, does its work and ends with the exit code of the error:
//
//	func main() {
//		g, err := mpi.Open(mpi.Options{})
//		if err != nil {
//			exit(err)
//		}
//		if err := train(g); err != nil {
//			g.Abort(err) // the others learn the cause
//			fmt.Fprintln(os.Stderr, err)
//			g.Close() // after the message: it waits for the messages of the others
//			os.Exit(group.ExitCode(err))
//		}
//		if err := g.Close(); err != nil {
//			exit(err)
//		}
//	}
//
//	func exit(err error) {
//		fmt.Fprintln(os.Stderr, err)
//		os.Exit(group.ExitCode(err))
//	}
//
// One goroutine, locked to its thread, makes every call of MPI. Operations use non-blocking
// collectives, so that it can look for failures while it waits. Before each operation the ranks
// compare a hash of its description, in 16 bytes.
//
// # Failures
//
// MPI does not report that a rank died, and a blocked call cannot be cancelled. So each rank has a
// note: a page of shared memory with its progress, whether it is busy, and its last word. While a
// rank waits, it looks every 0.2 ms at the notes and the processes of the other ranks on its host. A
// process that ended breaks the group with [group.ErrDied]; the last word of a broken group spreads.
// Ranks on other hosts are not visible: their end is noticed by the launcher, which sends SIGTERM,
// and by the limit, which counts their busy time. Limit and Busy work fully between ranks of a host.
//
// After an error MPI is not called again, and a broken group's Close does not finalize it: the
// program has to end, and the launcher ends what is left of the job.
//
// Open catches SIGTERM: pending and later operations then return [group.ErrSignalled], or name the
// rank whose end made the launcher send it. A program that ends at once then ends in time. With
// [Options.Grace] the group works on for that time, and a loop can end with a last checkpoint.
package mpi
