//go:build gpu && cgo

package compile

import (
	"errors"
	"strings"
	"testing"

	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/cudatest"
	"github.com/evenkeel/evenkeel/internal/graphtest"
	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cuda"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

func init() {
	devices = append(devices, device{"cuda", func(t testing.TB) kernels.Device {
		return mirror{cudatest.OpenChecked(t, cuda.Options{})}
	}})
}

// mirror is a device whose memory the host sees through a twin: a launch copies the twin there
// before it runs, and back afterwards.
type mirror struct{ kernels.Device }

type mirrored struct {
	arena.Memory
	twin arena.Memory
}

func (d mirror) Alloc(bytes int64) (arena.Memory, error) {
	m, err := d.Device.Alloc(bytes)
	if err != nil {
		return nil, err
	}
	twin, err := d.Pin(bytes)
	if err != nil {
		return nil, errors.Join(err, m.Free())
	}
	return &mirrored{m, twin}, nil
}

func (m *mirrored) Bytes() []byte { return m.twin.Bytes() }

func (m *mirrored) Free() error { return errors.Join(m.Memory.Free(), m.twin.Free()) }

func (d mirror) Bind(calls []kernels.Call, at kernels.Binding) (kernels.Program, error) {
	m := at.Memory.(*mirrored)
	at.Memory = m.Memory
	p, err := d.Device.Bind(calls, at)
	return &reflected{p, m}, err
}

type reflected struct {
	kernels.Program
	memory *mirrored
}

func (p *reflected) Launch(s arena.Stream) error {
	there, here := arena.Span{Memory: p.memory.Memory, Size: p.memory.Size()}, arena.Span{Memory: p.memory.twin, Size: p.memory.Size()}
	return errors.Join(s.Copy(there, here), p.Program.Launch(s), s.Copy(here, there))
}

// A GPU and the host compute the same in two updates of random graphs: the status word exactly, and
// numbers up to the error of a few dozen operations with another order of sums and other functions:
// see TestRandomGraphsTrainAsOnGorgoniasTapeMachine. Only optimizers whose steps follow the
// gradient's size are tried: others take a whole step for a gradient that is 0 except for rounding,
// as that of what softmax is shifted by.
func TestRandomGraphsTrainAsOnTheHost(t *testing.T) {
	count := uint64(200)
	if testing.Short() {
		count = 30
	}
	there, here := devices[len(devices)-1].open(t), openCPU(t)
	optimizers := []optim.Optimizer{optim.SGD{Rate: 0.1}, optim.SGD{Rate: 0.1, Momentum: 0.9}, optim.SGD{Rate: 0.1, Momentum: 0.9, Nesterov: true}}
	for s := range count {
		s += seed.Value() * 1000
		dt := []tensor.Dtype{tensor.Float32, tensor.Float64}[s%2]
		g, loss := randomGraph(s, dt, false)
		o := optimizers[g.Rand.IntN(len(optimizers))]
		cfg := g.config(here, loss)
		cfg.Update = updateOf(o, optim.Clip{Norm: float64(g.Rand.IntN(3))})
		want, _ := g.steps(t, here, cfg, o, 2)
		cfg.Device = there
		got, p := g.steps(t, there, cfg, o, 2)
		typ, tol := arena.Float32, 1e-3
		if dt == tensor.Float64 {
			typ, tol = arena.Float64, 1e-9
		}
		for name, w := range want {
			if strings.HasPrefix(name, "guard ") && got[name] != w || !strings.HasPrefix(name, "guard ") && !graphtest.Near(floats(typ, got[name]), floats(typ, w), tol) {
				t.Fatalf("seed %d, %v: %s is %v, on the host %v\n%v", s, g.grown, name, floats(typ, got[name]), floats(typ, w), listing(p))
			}
		}
	}
}

// floats decodes bytes of an outcome.
func floats(typ arena.DType, b string) []float64 {
	x := make([]float64, int64(len(b))/typ.Size())
	kernels.Load(x, typ, []byte(b))
	return x
}
