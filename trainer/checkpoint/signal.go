package checkpoint

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// Signals returns a channel for Options.Stop that SIGINT (Ctrl-C) or SIGTERM closes: the loop then
// ends after its step, with a checkpoint and without an error. A second signal ends the process at
// once, but for SIGTERM where group/mpi catches it: see mpi.Options.Grace. Call release when the loop
// has ended; signals then have their former effect again.
func Signals() (stop <-chan struct{}, release func()) {
	signals, stopped, released := make(chan os.Signal, 1), make(chan struct{}), make(chan struct{})
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	var once sync.Once
	var wait sync.WaitGroup
	wait.Go(func() {
		select {
		case <-signals:
			signal.Stop(signals) // the next one ends the process
			close(stopped)
		case <-released:
		}
	})
	return stopped, func() {
		once.Do(func() {
			signal.Stop(signals)
			close(released)
		})
		wait.Wait()
	}
}
