package vm_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/vm"
)

// mustGrad calls vm.Grad.
func mustGrad(t testing.TB, loss *gorgonia.Node, by ...*gorgonia.Node) gorgonia.Nodes {
	t.Helper()
	grads, err := vm.Grad(loss, by...)
	if err != nil {
		t.Fatal(err)
	}
	return grads
}

// Gorgonia gives a weight the gradient of its first loss only.
func TestGradGivesEachLossItsOwnGradientsOfSharedWeights(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		for _, bind := range []bool{false, true} {
			l := newTwoLosses(t, random(t).Uint64())
			want1, want2 := l.alone(dev, first, weight), l.alone(dev, second, weight, upper)
			g1, g2 := mustGrad(t, l.first, l.w), mustGrad(t, l.second, l.w, l.u)
			sum := l.must(gorgonia.Sum(l.must(gorgonia.Add(g1[0], g2[0])))) // a program computes with both
			var opt vm.Options
			if bind {
				opt.Bind = gorgonia.Nodes{l.w}
			}
			machine := newMachine(t, dev, l.g, opt)
			machine2 := newMachine(t, dev, l.g.SubgraphRoots(l.second), vm.Options{})
			mustRun(t, machine)
			sameAs(t, "w", l.w, want1[0])
			sameAs(t, "u", l.u, want2[1])
			total := 0.0
			for i := range want1[0] {
				total += want1[0][i] + want2[0][i]
			}
			if got := elements(sum.Value())[0]; !about(got, total, 1e-12) {
				t.Errorf("sum of both gradients of w: got %v, want %v", got, total)
			}
			for i, want := range [][]float64{want1[0], want2[0]} {
				if got := elements(valueOf(t, machine, []*gorgonia.Node{g1[0], g2[0]}[i])); !allNear(got, want, 1e-13) {
					t.Errorf("gradient of loss %d on demand: got %v, want %v", i, got, want)
				}
			}
			mustRun(t, machine2)
			sameAs(t, "w of the second loss", l.w, want2[0])
		}
	})
}

func TestGradOfSecondLossesHaveValuesAndAreNotSums(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		d := newBuilder(t, tensor.Float64, 1)
		w := d.in("w", 2)
		let(t, w, vector(1, 2))
		a, b := d.must(gorgonia.Sum(d.must(gorgonia.Square(w)))), d.must(gorgonia.Sum(d.must(gorgonia.Cube(w))))
		grads := slices.Concat(mustGrad(t, a, w), mustGrad(t, b, w))
		machine := newMachine(t, dev, d.g, vm.Options{Bind: gorgonia.Nodes{}})
		for k := 1.0; k <= 2; k++ {
			mustRun(t, machine)
			wantValue(t, "gradient of w", gradOf(t, w), 2*k, 4*k)
			wantValue(t, "gradient of the second loss", grads[1].Value(), 3, 12)
		}
	})
}

// In gorgonia.Grad the second call ends with "No gradients found for node": it does not pass the
// layers that the first one differentiated.
func TestAGANWhoseLossesShareTheDiscriminatorTrainsInOneGraph(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		build := func(seed uint64) (d *builder, wg, wd, lossG, lossD *gorgonia.Node) {
			d = newBuilder(t, tensor.Float64, seed)
			wg, wd = d.param("wg", 2, 3), d.param("wd", 3, 1)
			z, real := d.param("z", 6, 2), d.param("real", 6, 3)
			score := func(x *gorgonia.Node) *gorgonia.Node { return d.must(gorgonia.Sigmoid(d.must(gorgonia.Mul(x, wd)))) }
			fake := score(d.must(gorgonia.Tanh(d.must(gorgonia.Mul(z, wg)))))
			lossG = d.must(gorgonia.Neg(d.must(gorgonia.Mean(d.must(gorgonia.Log(fake))))))
			lossD = d.must(gorgonia.Sub(d.must(gorgonia.Mean(fake)), d.must(gorgonia.Mean(score(real)))))
			return d, wg, wd, lossG, lossD
		}
		seed := random(t).Uint64()
		d, wg, wd, lossG, lossD := build(seed)
		mustGrad(t, lossD, wd)
		mustGrad(t, lossG, wg)
		mustRun(t, newMachine(t, dev, d.g, vm.Options{}))
		for _, generator := range []bool{true, false} {
			c, cg, cd, cLossG, cLossD := build(seed)
			loss, by, got := cLossD, cd, wd
			if generator {
				loss, by, got = cLossG, cg, wg
			}
			if _, err := gorgonia.Grad(loss, by); err != nil {
				t.Fatal(err)
			}
			mustRun(t, newMachine(t, dev, c.g, vm.Options{}))
			sameAs(t, by.Name(), got, elements(gradOf(t, by)))
		}
	})
}

// Gorgonia's gradient nodes of an outer product have other shapes than the inputs.
func TestOuterProductsHaveRightGradients(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		for name, grad := range map[string]func(loss *gorgonia.Node, by ...*gorgonia.Node) (gorgonia.Nodes, error){
			"gorgonia.Grad": gorgonia.Grad, "vm.Grad": vm.Grad} {
			d := newBuilder(t, tensor.Float64, 1)
			x, y := d.in("x", 2), d.in("y", 3)
			let(t, x, vector(1, 2))
			let(t, y, vector(3, 4, 5))
			grads, err := grad(d.must(gorgonia.Sum(d.must(gorgonia.Square(d.must(gorgonia.OuterProd(x, y)))))), x, y)
			if err != nil {
				t.Fatal(err)
			}
			mustRun(t, newMachine(t, dev, d.g, vm.Options{}))
			wantValue(t, name+", gradient of x", gradOf(t, x), 2*50, 4*50)
			wantValue(t, name+", gradient of y", gradOf(t, y), 6*5, 8*5, 10*5)
			var read gorgonia.Value
			gorgonia.Read(grads[0], &read)
			machine, err := vm.New(d.g, vm.Options{Device: dev})
			if name == "gorgonia.Grad" {
				if err == nil || !strings.Contains(err.Error(), "vm.Grad") {
					t.Errorf("a gradient of another shape is read: got %v, want an error with vm.Grad", err)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			mustRun(t, machine)
			wantValue(t, "read gradient of x", read, 2*50, 4*50)
			if err := machine.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestBothWaysToDifferentiateLiveInOneGraph(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		l := newTwoLosses(t, random(t).Uint64())
		want1, want2 := l.alone(dev, first, weight), l.alone(dev, second, upper)
		mustGrad(t, l.first, l.w)
		l.grad(l.second, l.u)
		mustRun(t, newMachine(t, dev, l.g, vm.Options{}))
		sameAs(t, "w", l.w, want1[0])
		sameAs(t, "u", l.u, want2[0])
	})
}

func TestGradReportsWhatItCannotDifferentiate(t *testing.T) {
	d := newBuilder(t, tensor.Float64, 1)
	x, free := d.param("x", 2), d.param("free", 2)
	y := d.must(gorgonia.Exp(x))
	loss := d.must(gorgonia.Sum(y))
	for name, c := range map[string]struct {
		loss, by *gorgonia.Node
		want     string
	}{
		"a loss of two numbers":              {y, x, "one floating-point number"},
		"no loss":                            {nil, x, "one floating-point number"},
		"a computed node":                    {loss, y, "not an input"},
		"an input that the loss never reads": {loss, free, `"free"`},
	} {
		if _, err := vm.Grad(c.loss, c.by); !errors.Is(err, vm.ErrModel) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want ErrModel with %q", name, err, c.want)
		}
	}
	mustGrad(t, loss, x)
	tape := gorgonia.NewTapeMachine(d.g)
	defer tape.Close()
	if err := tape.RunAll(); err == nil || !strings.Contains(err.Error(), "vm.Grad") {
		t.Errorf("tape machine: got %v, want an error about vm.Grad", err)
	}
}

// A gradient of a gradient is refused by a typed error that names the loss and the cure.
func TestAGradientOfAGradientIsATypedError(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		for name, grad := range map[string]func(*gorgonia.Node, ...*gorgonia.Node) (gorgonia.Nodes, error){"gorgonia.Grad": gorgonia.Grad, "vm.Grad": vm.Grad} {
			for _, by := range []string{"x", "y"} {
				d := newBuilder(t, tensor.Float64, 1)
				x, y := d.param("x", 3), d.param("y", 3)
				grads, err := grad(d.must(gorgonia.Sum(d.must(gorgonia.HadamardProd(d.must(gorgonia.Exp(x)), y)))), x)
				if err != nil {
					t.Fatal(err)
				}
				norm := d.must(gorgonia.Sum(d.must(gorgonia.Square(grads[0]))))
				gorgonia.WithName("norm")(norm)
				if _, err := vm.Grad(norm, map[string]*gorgonia.Node{"x": x, "y": y}[by]); err != nil {
					t.Fatal(err)
				}
				_, err = vm.New(d.g, vm.Options{Device: dev})
				var e *vm.GradientError
				if !errors.As(err, &e) || !errors.Is(err, vm.ErrModel) || e.Node != "norm" || !strings.Contains(err.Error(), "write the gradient as a formula") {
					t.Errorf("%s, by %s: got %v, want a GradientError about norm with its cure", name, by, err)
				}
			}
		}
	})
}
