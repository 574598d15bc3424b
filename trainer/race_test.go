//go:build race

package trainer_test

const underRace = true // the race detector is on
