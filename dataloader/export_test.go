package dataloader

// Shuffled returns the shuffled order of an epoch over n samples.
func Shuffled(n int, seed uint64, epoch int) Sequence { return shuffle(n, seed, epoch) }
