package layers_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

// normalNet is a batch norm over x [8, 3] with values in everything but the statistics.
func normalNet(t *testing.T, dt tensor.Dtype) (net *layers.Net, x, y *gorgonia.Node) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed.Value(), 10))
	net = layers.New(gorgonia.NewGraph())
	net.Type = dt
	x = net.Input("x", 8, 3)
	y = net.BatchNorm(x, "n", nil)
	if net.Err() != nil {
		t.Fatal(net.Err())
	}
	bind(t, x, reals(r, 24))
	for _, p := range net.Params() {
		bind(t, p.Node, reals(r, 3))
	}
	return net, x, y
}

// moments returns mean and variance of column c of d [n, 3].
func moments(d []float64, c int) (mean, variance float64) {
	n := float64(len(d) / 3)
	for i := c; i < len(d); i += 3 {
		mean += d[i] / n
	}
	for i := c; i < len(d); i += 3 {
		variance += (d[i] - mean) * (d[i] - mean) / n
	}
	return mean, variance
}

func TestBatchNormTrainsByTheBatchAndMovesItsStatistics(t *testing.T) {
	for _, dt := range types {
		net, x, y := normalNet(t, dt)
		if err := net.Values(1); err != nil {
			t.Fatal(err)
		}
		in := numbers(t, x.Value())
		gamma, beta := numbers(t, net.Params()[0].Node.Value()), numbers(t, net.Params()[1].Node.Value())
		run(t, y.Graph())
		want, wantMean, wantVariance := make([]float64, 24), make([]float64, 3), make([]float64, 3)
		for c := range 3 {
			mean, variance := moments(in, c)
			wantMean[c], wantVariance[c] = 0.1*mean, 0.9+0.1*variance*8/7
			for i := c; i < 24; i += 3 {
				want[i] = gamma[c]*(in[i]-mean)/math.Sqrt(variance+1e-5) + beta[c]
			}
		}
		near(t, "y", dt, numbers(t, y.Value()), want)
		near(t, "mean", dt, numbers(t, net.Statistics()[0].Node.Value()), wantMean)
		near(t, "variance", dt, numbers(t, net.Statistics()[1].Node.Value()), wantVariance)
	}
}

// A variance that is too large for its type stops a Gorgonia machine, and no statistic moves.
func TestABatchVarianceThatOverflowsMovesNoStatistic(t *testing.T) {
	net, x, y := normalNet(t, tensor.Float32)
	if err := net.Values(1); err != nil {
		t.Fatal(err)
	}
	in := numbers(t, x.Value())
	in[4] = 3e19
	bind(t, x, in)
	m := gorgonia.NewTapeMachine(y.Graph())
	defer m.Close()
	if err := m.RunAll(); err == nil || !strings.Contains(err.Error(), "the variance of channel 1") { // Gorgonia's errors do not unwrap
		t.Errorf("got %v, want an error about the variance of channel 1", err)
	}
	near(t, "mean", tensor.Float32, numbers(t, net.Statistics()[0].Node.Value()), []float64{0, 0, 0})
	near(t, "variance", tensor.Float32, numbers(t, net.Statistics()[1].Node.Value()), []float64{1, 1, 1})
}

func TestBatchNormEvaluatesByItsStatisticsAndKeepsThem(t *testing.T) {
	for _, dt := range types {
		net, x, y := normalNet(t, dt)
		mean, variance := []float64{0.5, -1, 2}, []float64{4, 0.25, 1}
		bind(t, net.Statistics()[0].Node, mean)
		bind(t, net.Statistics()[1].Node, variance)
		params := net.Params()
		grads, err := gorgonia.Grad(gorgonia.Must(gorgonia.Sum(y)), x, params[0].Node, params[1].Node)
		if err != nil {
			t.Fatal(err)
		}
		m := gorgonia.NewTapeMachine(y.Graph(), gorgonia.EvalMode())
		defer m.Close()
		if err := m.RunAll(); err != nil {
			t.Fatal(err)
		}
		in, gamma, beta := numbers(t, x.Value()), numbers(t, params[0].Node.Value()), numbers(t, params[1].Node.Value())
		want, dx, dgamma := make([]float64, 24), make([]float64, 24), make([]float64, 3)
		for i, v := range in {
			c := i % 3
			deviation := math.Sqrt(variance[c] + 1e-5)
			want[i] = gamma[c]*(v-mean[c])/deviation + beta[c]
			dx[i] = gamma[c] / deviation
			dgamma[c] += (v - mean[c]) / deviation
		}
		near(t, "y", dt, numbers(t, y.Value()), want)
		near(t, "dx", dt, numbers(t, grads[0].Value()), dx)
		near(t, "dgamma", dt, numbers(t, grads[1].Value()), dgamma)
		near(t, "dbeta", dt, numbers(t, grads[2].Value()), []float64{8, 8, 8})
		near(t, "mean", dt, numbers(t, net.Statistics()[0].Node.Value()), mean)
		near(t, "variance", dt, numbers(t, net.Statistics()[1].Node.Value()), variance)
	}
}

func TestABatchOfOneCanBeEvaluatedAndNotTrained(t *testing.T) {
	net := layers.New(gorgonia.NewGraph())
	x := net.Input("x", 1, 3)
	y := net.BatchNorm(x, "n", nil)
	if net.Err() != nil {
		t.Fatal(net.Err())
	}
	bind(t, x, []float64{1, 2, 3})
	if err := net.Values(1); err != nil {
		t.Fatal(err)
	}
	m := gorgonia.NewTapeMachine(y.Graph(), gorgonia.EvalMode())
	defer m.Close()
	if err := m.RunAll(); err != nil {
		t.Error(err)
	}
	trains := gorgonia.NewTapeMachine(y.Graph())
	defer trains.Close()
	if err := trains.RunAll(); err == nil {
		t.Error("a variance of one element was taken")
	}
}

func TestDropoutDrawsAMaskEachRunThatItsGradientShares(t *testing.T) {
	const rate, n = 0.3, 4000
	net := layers.New(gorgonia.NewGraph())
	x := net.Input("x", 40, 100)
	y := net.Dropout(x, "drop", rate)
	if net.Err() != nil {
		t.Fatal(net.Err())
	}
	grads, err := gorgonia.Grad(gorgonia.Must(gorgonia.Sum(y)), x)
	if err != nil {
		t.Fatal(err)
	}
	bind(t, x, slices.Repeat([]float64{1}, n))
	m := gorgonia.NewTapeMachine(y.Graph())
	defer m.Close()
	var before []float64
	for range 2 {
		m.Reset()
		if err := m.RunAll(); err != nil {
			t.Fatal(err)
		}
		got := numbers(t, grads[0].Value())
		kept := 0
		for _, v := range got {
			if v != 0 {
				kept++
			}
			if v != 0 && math.Abs(v-1/(1-rate)) > 1e-6 { // rounding to float32
				t.Fatalf("an element became %v", v)
			}
		}
		// Five standard deviations of a binomial.
		if share := float64(kept) / n; math.Abs(share-(1-rate)) > 5*math.Sqrt(rate*(1-rate)/n) {
			t.Errorf("%v of the elements were kept, want %v", share, 1-rate)
		}
		if slices.Equal(got, before) {
			t.Error("two runs drew one mask")
		}
		before = got
	}
	var value gorgonia.Value
	gorgonia.Read(y, &value)
	again := gorgonia.NewTapeMachine(y.Graph())
	defer again.Close()
	if err := again.RunAll(); err != nil {
		t.Fatal(err)
	}
	near(t, "the gradient of a sum over ones", tensor.Float32, numbers(t, grads[0].Value()), numbers(t, value))
	evaluates := gorgonia.NewTapeMachine(y.Graph(), gorgonia.EvalMode())
	defer evaluates.Close()
	if err := evaluates.RunAll(); err != nil {
		t.Fatal(err)
	}
	near(t, "evaluated", tensor.Float32, numbers(t, value), slices.Repeat([]float64{1}, n))
}

func TestTwoDropoutsOfOneNodeAreTwoNodes(t *testing.T) {
	net := layers.New(gorgonia.NewGraph())
	x := net.Input("x", 10, 50)
	a, b := net.Dropout(x, "a", 0.5), net.Dropout(x, "b", 0.5)
	if net.Err() != nil || a == b {
		t.Fatal(a, b, net.Err())
	}
	bind(t, x, slices.Repeat([]float64{1}, 500))
	var va, vb gorgonia.Value
	gorgonia.Read(a, &va)
	gorgonia.Read(b, &vb)
	run(t, x.Graph())
	if fmt.Sprint(va.Data()) == fmt.Sprint(vb.Data()) {
		t.Error("two layers drew one mask")
	}
}
