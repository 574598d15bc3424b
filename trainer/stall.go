package trainer

import "time"

// Pauses between two looks at the step in flight, while the next batch is not read yet. A part of
// the time since the first look makes the error of the measurement small and the looks few.
const (
	firstPause = 50 * time.Microsecond
	pausePart  = 16
)

// awaitIdle waits until the next batch is there, or until the device has nothing to do: before is the
// slot of the step in flight, or nil. So the time that the reader's Next waits afterwards is time that
// the device waits for data.
func (p *epochPass) awaitIdle(before *slot) {
	run := p.reader.run
	if before == nil || run.Await(0) {
		return
	}
	for begin := time.Now(); ; {
		p.t.looks++
		if before.ready.Done() || run.Await(max(firstPause, time.Since(begin)/pausePart)) {
			return
		}
	}
}
