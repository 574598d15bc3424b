package trainer

import (
	"context"
	"log/slog"

	"github.com/evenkeel/evenkeel/internal/compile"
)

// logger returns Options.Logger, or one that discards everything.
func (o *Options) logger() *slog.Logger {
	if o.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return o.Logger
}

// logMade logs a new trainer.
func (t *Trainer) logMade() {
	log, opt := t.plan.opt.logger(), &t.plan.opt
	log.Info("trainer", "device", opt.Device.Name(), "batch", opt.Batch, "arena_bytes", t.plan.layout.Total())
	if opt.Group != nil {
		log.Info("rank joined", "rank", opt.rank(), "ranks", opt.ranks())
	}
}

// logPass logs a pass that has ended without an error: who calls it has the error.
func (t *Trainer) logPass(name string, r Result) {
	log := t.plan.opt.logger()
	log.Info(name, "epoch", r.Epoch, "samples", r.Samples, "loss", r.Loss, "accuracy", r.Accuracy, "waited_for_data", r.Input.Share(),
		"workers", r.Input.Workers)
	if r.Dropped > 0 {
		log.Info("samples are left out: they do not fill a batch", "samples", r.Dropped)
	}
}

// logSkipped logs a training step whose update is skipped.
func (p *epochPass) logSkipped(s *slot, o outcome) {
	if o == succeeded || p.mode != compile.Train {
		return
	}
	level, why := slog.LevelDebug, "gradients overflow"
	switch o {
	case nonFinite:
		level, why = slog.LevelWarn, "loss or gradients are not finite"
	case weightless:
		why = "all weights are 0"
	case lost:
		why = "a step of its window is not finite"
	}
	p.t.plan.opt.logger().Log(context.Background(), level, "a step is skipped", "why", why, "objective", p.t.plan.nameOfStep(s), "epoch", p.epoch, "step", s.batch.Step)
}
