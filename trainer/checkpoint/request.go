package checkpoint

// Request asks the loop of Steps or Fit that runs, or the next one, for a checkpoint after its step.
// It does not wait for it, and may be called from any goroutine: a checkpoint is then due as by
// Options.EverySteps.
func (f *Folder) Request() { f.requested.Store(true) }

// Requested reports whether a requested checkpoint has not been begun. It may be called from any
// goroutine.
func (f *Folder) Requested() bool { return f.requested.Load() }
