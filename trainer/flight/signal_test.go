//go:build unix

package flight_test

import (
	"bytes"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/flat"
	"github.com/evenkeel/evenkeel/trainer/flight"
)

// text is a buffer that two goroutines use.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (w *text) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(b)
}

func (w *text) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

func TestASignalIsDumpedUntilStopIsCalled(t *testing.T) {
	rec, w := flight.New(0), &text{}
	rec.Progress(trainer.Progress{StepNumber: 41})
	outer := rec.Notify(&text{}, syscall.SIGUSR1) // so that the process survives the last signal
	defer outer()
	stop := rec.Notify(w, syscall.SIGUSR1)
	send := func() {
		if err := syscall.Kill(syscall.Getpid(), syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
	}
	send()
	for begin := time.Now(); !strings.Contains(w.String(), "flight recorder: signal: "+syscall.SIGUSR1.String()+"\n1 steps"); {
		if time.Since(begin) > 10*time.Second {
			t.Fatalf("not dumped after 10s: %q", w.String())
		}
		time.Sleep(time.Millisecond)
	}
	stop()
	stop()
	before := w.String()
	send()
	time.Sleep(10 * time.Millisecond)
	if w.String() != before {
		t.Errorf("dumped after stop: %s", w.String()[len(before):])
	}
	flat.Checker{Rounds: 3}.Check(t, func() { rec.Notify(w, syscall.SIGUSR1)() })
}
