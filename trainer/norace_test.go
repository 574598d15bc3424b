//go:build !race

package trainer_test

const underRace = false // the race detector is off
