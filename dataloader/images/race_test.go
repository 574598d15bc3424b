//go:build race

package images

// raceEnabled: the race detector makes sync.Pool drop memory at random.
const raceEnabled = true
