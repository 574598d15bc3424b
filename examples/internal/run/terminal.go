package run

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	humanize "github.com/dustin/go-humanize"
	"golang.org/x/term"

	"github.com/evenkeel/evenkeel/trainer"
)

// wide is the number of columns of output that goes to no terminal.
const wide = 100

// columns returns the width of a terminal, or wide for another writer.
func columns(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 0 {
			return n
		}
	}
	return wide
}

// terminal reports whether standard error is a terminal.
func terminal() bool { return term.IsTerminal(int(os.Stderr.Fd())) }

// epochLine returns the line after an epoch. In less than wide columns it is shorter; one that does
// not fit then goes on in the next line.
func epochLine(columns, epoch int, speed float64, fit, val trainer.Result, inUse int64) string {
	if columns >= wide {
		return fmt.Sprintf("epoch %2d  %7.0f images/s  train loss %s  test loss %s  %d bytes in use\n", epoch, speed, lossText(fit), lossText(val), inUse)
	}
	value, unit := humanize.ComputeSI(speed)
	return joined(columns, fmt.Sprintf("epoch %2d", epoch), fmt.Sprintf("%.3g%s images/s", value, unit),
		"train "+lossText(fit), "test "+lossText(val), humanize.IBytes(uint64(max(inUse, 0))))
}

// logEvery is the time between two lines of a progressLog.
const logEvery = 10 * time.Second

// progressLog writes lines about a long epoch where there is no terminal for a progress bar.
type progressLog struct {
	out     io.Writer
	samples int // of the epoch
	begun   time.Time
	first   int // samples that were trained before, in a resumed epoch; -1 before the first step
	next    time.Time
}

// newProgressLog returns the log of an epoch that begins now.
func newProgressLog(out io.Writer, samples int, now time.Time) *progressLog {
	return &progressLog{out: out, samples: samples, begun: now, first: -1, next: now.Add(logEvery)}
}

// step writes a line if the last one is long ago: the share of the epoch, the loss, the speed and the
// time left.
func (l *progressLog) step(p trainer.Progress, now time.Time) {
	if l.first < 0 { // after the first step, which is as if it took no time
		l.first, l.begun = p.Samples, now
	}
	if now.Before(l.next) || p.Samples <= l.first {
		return
	}
	l.next = now.Add(logEvery)
	each := now.Sub(l.begun) / time.Duration(p.Samples-l.first)
	left := each * time.Duration(max(l.samples-p.Samples, 0))
	speed, unit := humanize.ComputeSI(1 / max(each.Seconds(), 1e-9))
	fmt.Fprintf(l.out, "epoch %2d  %2d %%  loss %s  %.3g%s images/s  %s left\n", p.Epoch+1, 100*p.Samples/max(l.samples, 1),
		score(p.Loss, p.Accuracy), speed, unit, left.Round(time.Second))
}

// joined writes fields with two spaces between them. Where a line would have more than that many
// columns, it goes on in the next one, indented.
func joined(columns int, fields ...string) string {
	var b strings.Builder
	at := 0
	for i, f := range fields {
		switch {
		case i == 0:
		case at+2+len(f) > columns:
			b.WriteString("\n" + strings.Repeat(" ", 8))
			at = 8
			fallthrough
		default:
			b.WriteString("  ")
			at += 2
		}
		b.WriteString(f)
		at += len(f)
	}
	return b.String() + "\n"
}
