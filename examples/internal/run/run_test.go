package run

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
)

func TestAnInterruptEndsALoadThatHangs(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	begun, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	e := Example{Name: "hangs", Flags: Flags{Device: "cpu", Batch: 1, Epochs: 1, Optimizer: "sgd"}, Load: func(Flags) (train, test dataloader.Dataset, err error) {
		close(begun)
		<-release
		return nil, nil, io.ErrUnexpectedEOF
	}}
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx, nil, io.Discard) }()
	<-begun
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}
