package trainer

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/emutest"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/emu"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// Builds that share a cache are those that are made alone, whatever was asked before, and errors are those of the same mistakes.
func TestProgramsFromACacheAreThoseThatAreCompiled(t *testing.T) {
	t.Parallel()
	r := seed.Rand(t, 0)
	dev := emutest.Open(t, emu.Options{})
	defer func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	}()
	calls := 0
	model := func(g *gorgonia.ExprGraph, batch int) (Model, error) {
		calls++
		if batch == 6 {
			return Model{}, fmt.Errorf("takes no batch of 6")
		}
		net := layers.New(g)
		x := net.Input("x", batch, 2, 4, 4)
		h := net.BatchNorm(net.Conv(x, "conv", layers.Conv2D{Out: 4, Kernel: layers.Square(3), Pad: layers.Square(1)}, layers.ReLU), "norm", nil)
		h = net.Dense(net.Flatten(h, "flat"), "hidden", 24, layers.ReLU)
		return net.Classifier(x, net.Dense(net.Dropout(h, "dropout", 0.5), "out", 3, nil))
	}
	all := optim.All()
	opt := Options{Batch: 4, Memory: 24 << 10}
	redraw := []func(){
		func() { opt.Batch = []int{2, 4, 4, 8, 6}[r.IntN(5)] },
		func() { opt.EvalBatch = 4 * r.IntN(3) },
		func() { opt.Accumulate = r.IntN(4) },
		func() { opt.Optimizer = all[r.IntN(len(all))].Optimizer },
		func() { opt.Guard = Guard(r.IntN(2)) },
		func() {
			opt.Precision, opt.KeepFloat32 = []arena.DType{0, arena.BFloat16, arena.Float16}[r.IntN(3)], nil
		},
		func() {
			if opt.Precision.Half() {
				opt.KeepFloat32 = [][]string{nil, {"hidden"}}[r.IntN(2)]
			}
		},
		func() { opt.Recompute = []Recompute{{}, {Auto: true}, {Layers: []string{"conv"}}}[r.IntN(3)] },
		func() { opt.Memory = int64(8+r.IntN(40)) << 10 },
		func() { opt.Device = []kernels.Device{nil, dev}[r.IntN(2)] },
		func() { opt.Offload = Offload{State: r.IntN(2) == 0, Parameters: r.IntN(2) == 0} },
		func() { opt.Clip.Norm = float64(r.IntN(2)) },
		func() { opt.Schedule = []optim.Schedule{nil, optim.Cosine{Steps: 9}}[r.IntN(2)] },
		func() { opt.Frozen = [][]string{nil, {"conv"}}[r.IntN(2)] },
		func() {
			opt.LossScale.Mode = []optim.ScalingMode{optim.ScaleFloat16, optim.ScaleAlways, optim.ScaleNever}[r.IntN(3)]
		},
		func() { opt.Keep = [][]string{nil, {"hidden/w"}}[r.IntN(2)] },
		func() { opt.Workers, opt.Sequential, opt.Seed = r.IntN(3), r.IntN(2) == 0, uint64(r.IntN(2)) },
	}
	known, built, compiled := new(programCache), 0, [2]int{} // without the cache, and with it
	complete := &programCache{complete: true}
	tries := 120
	if testing.Short() {
		tries = 40
	}
	for range tries {
		was := opt
		redraw[r.IntN(len(redraw))]()
		before := calls
		fresh, want := newPlanned(t.Context(), model, opt, nil)
		between := calls
		got, err := newPlanned(t.Context(), model, opt, known)
		compiled[0], compiled[1] = compiled[0]+between-before, compiled[1]+calls-between
		if trained, err := newPlanned(t.Context(), model, opt, complete); fmt.Sprint(err) != fmt.Sprint(want) || err == nil && !sameStart(trained, fresh) {
			t.Fatalf("%+v: a plan from a complete cache starts with other values; %v", opt, err)
		}
		if fmt.Sprint(err) != fmt.Sprint(want) {
			t.Fatalf("%+v: got %v, want %v", opt, err, want)
		}
		if err != nil {
			opt = was
			continue
		}
		built++
		if !reflect.DeepEqual(got.programs, fresh.programs) || !reflect.DeepEqual(got.order, fresh.order) {
			t.Fatalf("%+v: programs from the cache are others", opt)
		}
		for i := range ir.Regions {
			if r := arena.Region(i); !reflect.DeepEqual(got.homes.Parts(r), fresh.homes.Parts(r)) || len(got.initial[r]) != len(fresh.initial[r]) {
				t.Fatalf("%+v: region %d has %v, want %v", opt, r, got.homes.Parts(r), fresh.homes.Parts(r))
			}
		}
		if !reflect.DeepEqual(got.report(), fresh.report()) {
			t.Fatalf("%+v: got %v, want %v", opt, got.report(), fresh.report())
		}
	}
	if built < tries/2 || 4*compiled[1] > 3*compiled[0] {
		t.Errorf("of %d builds %d are compared; %d programs were compiled with the cache, %d without", tries, built, compiled[1], compiled[0])
	}
}

// sameStart reports whether two plans have the same programs and as many initial values of the same kinds.
func sameStart(p, q *planned) bool {
	for r := range p.initial {
		if !slices.EqualFunc(p.initial[r], q.initial[r], func(x, y initialValue) bool {
			return x.name == y.name && x.seed == y.seed && reflect.DeepEqual(x.constant, y.constant) &&
				(x.node == nil) == (y.node == nil) && (x.init == nil) == (y.init == nil)
		}) {
			return false
		}
	}
	return reflect.DeepEqual(p.programs, q.programs)
}
