package checkpoint

import "time"

// defaultTime is the time between checkpoints if the options name no interval.
const defaultTime = 10 * time.Minute

// schedule decides when a checkpoint is due: each time that the number of the step, or of finished
// epochs, passes a multiple of its interval, and when so much time has passed since the last one.
type schedule struct {
	steps, epochs int64 // intervals; 0: none
	time          time.Duration

	// What was counted when the last checkpoint was begun.
	step, epoch int64
	at          time.Time
}

// start begins all intervals.
func (s *schedule) start(step, epoch int64, now time.Time) {
	s.step, s.epoch, s.at = step, epoch, now
}

// due reports whether a checkpoint is due after a step; epoch is the number of finished epochs.
func (s *schedule) due(step, epoch int64) bool {
	return s.steps > 0 && step/s.steps != s.step/s.steps || s.epochs > 0 && epoch/s.epochs != s.epoch/s.epochs
}

// dueAt reports whether a checkpoint is due by the time. Go measures it with a clock that never
// goes back; if a clock does, the interval begins again, so that the next checkpoint is late by at
// most one interval.
func (s *schedule) dueAt(now time.Time) bool {
	if now.Before(s.at) {
		s.at = now
	}
	return s.time > 0 && now.Sub(s.at) >= s.time
}
