package trainer_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
)

// A logger gets what happens rarely, and nothing else.
func TestALoggerGetsTheEventsOfATraining(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		var log bytes.Buffer
		ds := poisonedAt(t, 22, 9) // in the second step
		opt := trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Sequential: true, SkipNonFinite: 2, Tail: dataloader.DropTail, Checkpoint: true,
			Logger: slog.New(slog.NewTextHandler(&log, nil))}
		tr := made(t, small, opt)
		if _, err := tr.Fit(t.Context(), ds); err != nil {
			t.Fatal(err)
		}
		if _, err := tr.Restore(t.Context(), save(t, tr), trainer.RestoreOptions{}); err != nil {
			t.Fatal(err)
		}
		text := log.String()
		for _, want := range []string{"msg=trainer device=", "batch=8", "level=WARN msg=\"a step is skipped\" why=\"loss or gradients are not finite\"", "step=1\n",
			"msg=Fit epoch=0 samples=16", "samples=6", "msg=restored step=2"} {
			if !strings.Contains(text, want) {
				t.Errorf("the log has no %q", want)
			}
		}
		if n := strings.Count(text, "\n"); n != 5 || t.Failed() {
			t.Errorf("%d lines, want 5:\n%s", n, text)
		}
	})
}
