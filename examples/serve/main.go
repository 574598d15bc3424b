// Command serve trains a convolutional network on the MNIST digits and answers pictures of digits
// over HTTP.
//
//	go run ./examples/serve              train, then serve http://localhost:8080
//	curl --data-binary @digit.png localhost:8080/predict
//	go run ./examples/serve -weights digits.safetensors     train once, and later only serve
//
// The page at / has a field to draw a digit in. With -training, POST /train trains a further epoch
// in the background, while the server answers with snapshots of it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/examples/internal/run"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

// flags are the flags of the command line.
type flags struct {
	addr     string
	data     string
	samples  int
	epochs   int
	batch    int
	rows     int
	delay    time.Duration
	training bool
	seed     uint64

	plan       bool
	picture    string
	weights    string
	checkpoint string
	resume     bool
	every      string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := serve(ctx, os.Args[1:], os.Stdout, nil); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "serve: %v\n", err)
		stop()
		os.Exit(1)
	}
}

// parse reads the command line.
func parse(args []string, out io.Writer) (f flags, err error) {
	s := flag.NewFlagSet("serve", flag.ContinueOnError)
	s.SetOutput(out)
	s.StringVar(&f.addr, "addr", "localhost:8080", "address to serve at")
	s.StringVar(&f.data, "data", "", "directory of MNIST's four files; empty: those of a Go module")
	s.IntVar(&f.samples, "samples", 20000, "number of training images, of 60000")
	s.IntVar(&f.epochs, "epochs", 1, "epochs to train before serving")
	s.IntVar(&f.batch, "batch", 64, "samples of a training step")
	s.IntVar(&f.rows, "rows", 64, "most pictures that are answered as one batch")
	s.DurationVar(&f.delay, "delay", 0, "how long a batch that is not full waits for further pictures")
	s.BoolVar(&f.training, "training", false, "keep the trainer, and train an epoch for each POST /train")
	s.Uint64Var(&f.seed, "seed", 1, "seed of initial values and of the order of samples")
	s.BoolVar(&f.plan, "plan", false, "print the memory plans of training and of serving, and stop")
	s.StringVar(&f.picture, "picture", "", "with -plan, draw the plans to `file`: a page (.html) with both, or a map (.svg, .png) of serving")
	s.StringVar(&f.weights, "weights", "", "file of weights: served without training if it is there, else written after training")
	run.AddCheckpoint(s, &f.checkpoint, &f.resume, &f.every)
	if err := s.Parse(args); err != nil {
		return f, err
	}
	if s.NArg() > 0 {
		return f, fmt.Errorf("unexpected argument %q", s.Arg(0))
	}
	if f.samples < 1 || f.samples > 60000 || f.epochs < 0 {
		return f, fmt.Errorf("samples %d must be 1 to 60000, and epochs %d not negative", f.samples, f.epochs)
	}
	if f.picture != "" && !f.plan {
		return f, errors.New("-picture draws what -plan prints: add -plan")
	}
	if f.weights != "" && f.checkpoint != "" {
		return f, errors.New("-weights and -checkpoint: use one of them")
	}
	return f, run.CheckCheckpoint(f.checkpoint, f.resume, f.every)
}

// cnn is the model of examples/cnn: two convolutions with pooling, dropout, and two dense layers.
func cnn(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	filters := layers.Conv2D{Out: 32, Kernel: layers.Square(3), Pad: layers.Square(1)}
	halve := layers.Pool{Kernel: layers.Square(2)}
	x := net.Input("x", batch, 1, 28, 28)
	h := net.MaxPool(net.Conv(x, "conv1", filters, layers.ReLU), "pool1", halve)
	filters.Out = 64
	h = net.MaxPool(net.Conv(h, "conv2", filters, layers.ReLU), "pool2", halve)
	h = net.Dense(net.Flatten(h, "flat"), "hidden", 128, layers.ReLU)
	h = net.Dropout(h, "dropout", 0.25)
	return net.Classifier(x, net.Dense(h, "out", 10, nil))
}

// serve trains, and serves until ctx ends. ready, if it is not nil, gets the address.
func serve(ctx context.Context, args []string, out io.Writer, ready chan<- string) (err error) {
	f, err := parse(args, out)
	if err != nil {
		return err
	}
	train, test, err := run.Digits(f.data, 1, 28, 28)
	if err != nil {
		return err
	}
	if train, err = dataloader.Subset(train, 0, f.samples); err != nil {
		return err
	}
	dev, err := cpu.Open(cpu.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	if f.plan {
		return f.showPlans(ctx, dev, train.Fields(), out)
	}
	s := &server{training: f.training}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.open(ctx, dev, train, test, f, out); errors.Is(err, run.ErrStopped) {
		return nil
	} else if err != nil {
		return err
	}
	l, err := net.Listen("tcp", f.addr)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "serving http://%s\n", l.Addr())
	if ready != nil {
		ready <- l.Addr().String()
	}
	err = listen(ctx, l, s.handler(), out)
	s.cancel()
	s.work.Wait()
	if s.folder != nil && s.folder.Stopped() && err == nil { // training in the background
		if err = run.Stopped(s.folder, out); errors.Is(err, run.ErrStopped) {
			err = nil
		}
	}
	return err
}

// shutdown is how long requests have to end after the signal to stop.
const shutdown = 10 * time.Second

// listen serves until ctx ends; requests that have begun are then answered.
func listen(ctx context.Context, l net.Listener, h http.Handler, out io.Writer) error {
	web := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       15 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    1 << 16,
	}
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	fmt.Fprintln(out, "stopping")
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdown)
	defer cancel()
	err := web.Shutdown(end)
	if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
