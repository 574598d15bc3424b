package run

import (
	"errors"
	"flag"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/trainer"
)

func TestTheRateOfAnExampleIsForItsOwnOptimizer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want float64
	}{
		{nil, 0.003},
		{[]string{"-optimizer", "sgd"}, 0},
		{[]string{"-optimizer", "sgd", "-rate", "0.1"}, 0.1},
		{[]string{"-rate", "0.2"}, 0.2},
	} {
		f := Flags{Optimizer: "adam", Rate: 0.003}
		if err := f.Parse("example", c.args); err != nil || f.Rate != c.want {
			t.Errorf("%v: rate %v, %v, want %v", c.args, f.Rate, err, c.want)
		}
	}
}

// flagged returns the flags that the errors in err are of.
func flagged(err error) (names []string) {
	var f *FlagError
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range all.Unwrap() {
			names = append(names, flagged(err)...)
		}
	} else if errors.As(err, &f) {
		names = append(names, f.Flag)
	}
	return names
}

// What cannot be followed is refused before anything is read or made, all of it at once.
func TestFlagsThatCannotBeFollowedAreErrors(t *testing.T) {
	t.Parallel()
	for args, want := range map[string][]string{
		"-picture a.jpg":                            {"picture"},
		"-picture memory":                           {"picture"},
		"-picture .":                                {"picture"},
		"-plan -picture a.png":                      nil,
		"-plan -picture a.HTML":                     nil,
		"-compare -picture a.html":                  {"compare"},
		"-compare -picture a.svg -recompute auto":   {"compare"},
		"-compare -plan -recompute auto":            {"compare"}, // the example's own PNG is left out
		"-compare -picture a.html -guard each":      nil,
		"-compare -picture a.html -offload none":    {"compare"},
		"-quiet":                                    nil,
		"-quiet -plan":                              {"quiet"},
		"-quiet -plan -picture a.html":              nil,
		"-quiet -what-fits 8MiB":                    {"quiet"},
		"-what-fits 8MiB -compare":                  {"compare"},
		"-json out/a.svg -picture out/./a.svg":      {"json"},
		"-json ./example.png":                       {"json"}, // the example's own PNG
		"-what-fits 8MiB -picture a.svg":            {"picture"},
		"-what-fits 8MiB -plan -memory 1MiB":        {"plan", "memory"},
		"-what-fits 8MiB -json a.json":              {"json"},
		"-what-fits 0":                              {"what-fits"},
		"-what-fits -5":                             {"what-fits"},
		"-plan -json a.json -epochs -1":             {"epochs", "json"},
		"-plan -profile":                            {"profile"},
		"-trace a.json -what-fits 8MiB":             {"trace"},
		"-trace a.json -json b.json":                {"trace"},
		"-profile -checkpoint a":                    {"profile"},
		"-trace x/../example.png":                   {"trace"},
		"-trace a.json -profile -ranks 2":           nil,
		"-device emu -instructions avx2":            {"instructions"},
		"-quiet -profile":                           {"quiet"},
		"-quiet -trace a.json":                      nil,
		"-shard state":                              {"shard"},
		"-shard state -ranks 1":                     {"shard"},
		"-shard none":                               nil,
		"-shard state,gradients -ranks 2":           nil,
		"-shard state,parameters -ranks 2":          {"shard"},
		"-shard gradients -ranks 2":                 {"shard"},
		"-recompute ,":                              {"recompute"},
		"-recompute auto,hidden":                    {"recompute"},
		"-offload state,":                           {"offload"},
		"-offload none,state":                       {"offload"},
		"-offload none -recompute none":             nil,
		"-offload state,parameters,hidden":          nil,
		"-picture a.SVG -plan":                      nil,
		"-picture a.PNG -json a.json":               nil,
		"-grace 1s":                                 {"grace"},
		"-grace 1s -mpi":                            {"grace"},
		"-grace 1s -checkpoint a":                   {"grace"},
		"-grace 1s -mpi -checkpoint a":              nil,
		"-grace -1s -mpi -checkpoint a":             {"grace"},
		"-resume -every 5":                          {"resume", "every"},
		"-checkpoint a -every 5x":                   {"every"},
		"-checkpoint a -resume -every 5m":           nil,
		"-plan":                                     nil, // the example's own PNG is left out
		"-what-fits 8MiB -recompute auto -batch 16": nil,
	} {
		f := Flags{Device: "cpu", Epochs: 1, Picture: "example.png"}
		err := f.Parse("example", strings.Fields(args))
		if got := flagged(err); !slices.Equal(got, want) || (err == nil) != (want == nil) {
			t.Errorf("%s: errors of %q, want %q: %v", args, got, want, err)
		}
	}
}

func TestShardIsAListOfValues(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]trainer.Shard{"": 0, "none": 0, "state": trainer.ShardState, " state": trainer.ShardState,
		"state,gradients": trainer.ShardGradients, "state, gradients": trainer.ShardGradients, "gradients,state": trainer.ShardGradients} {
		f := Flags{Device: "cpu", Optimizer: "adam"}
		if err := f.Parse("example", []string{"-ranks", "2", "-shard", value}); err != nil {
			t.Errorf("%q: %v", value, err)
			continue
		}
		if opt, err := f.Options(); err != nil || opt.Shard != want {
			t.Errorf("%q: %v, %v, want %v", value, opt.Shard, err, want)
		}
	}
}

// An error is one line of its own, however many flags there are.
func TestAMisspeltFlagIsSaidOnce(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"-nosuch", "-batch x", "-memory much", "-resident=maybe", "train"} {
		err := new(Flags).Parse("example", strings.Fields(args))
		if err == nil || errors.Is(err, flag.ErrHelp) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "-h lists the flags") {
			t.Errorf("%s: %v", args, err)
		}
	}
}

func TestUpdatesAreCountedWithoutOverflow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		epochs, batch, windows, samples int
		want                            int64
	}{
		{2, 10, 1, 101, 22},
		{2, 10, 4, 101, 6},
		{2, 10, 0, 100, 20},
		{0, 10, 1, 100, 0},
		{5, 10, 1, 0, 0},
		{3, math.MaxInt, math.MaxInt, 100, 3},
		{math.MaxInt, 10, 1, 100, math.MaxInt64},
		{math.MaxInt, 100, 1, 100, math.MaxInt64},
	} {
		f := Flags{Epochs: c.epochs, Batch: c.batch, Accumulate: c.windows}
		if got := f.updates(c.samples, 1); got != c.want {
			t.Errorf("%+v: %d updates", c, got)
		}
	}
}
