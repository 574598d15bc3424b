package cpu

// folder32 returns the folds of float32 of a level.
func folder32(level) *folder[float32] { return goFolder[float32]() }

// folder64 returns the folds of float64 of a level.
func folder64(level) *folder[float64] { return goFolder[float64]() }
