package trainer

// WaitingForStep returns the number of calls that wait for the end of a step.
func WaitingForStep(t *Trainer) int { return int(t.usage.snapshots.count.Load()) }
