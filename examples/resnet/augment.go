package main

import "github.com/evenkeel/evenkeel/dataloader"

// margin is the largest shift of a training image, in pixels. Pixels from outside the image are black.
const margin = 4

// augment shifts an image [3, 32, 32] at random and mirrors it with probability 1/2, as in He et
// al., 2016, section 4.2. Its random numbers depend on the seed, the epoch and the sample.
func augment(at dataloader.At, sample [][]byte) error {
	r := at.Rand()
	dy, dx, mirror := r.IntN(2*margin+1)-margin, r.IntN(2*margin+1)-margin, r.IntN(2) == 1
	var from [3 * side * side]byte
	copy(from[:], sample[0])
	for i := range from {
		y, x := i/side%side+dy, i%side
		if mirror {
			x = side - 1 - x
		}
		x += dx
		sample[0][i] = 0
		if y >= 0 && y < side && x >= 0 && x < side {
			sample[0][i] = from[i/(side*side)*side*side+y*side+x]
		}
	}
	return nil
}
