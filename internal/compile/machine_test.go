package compile

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"unsafe"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/internal/graphtest"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// openCPU opens the host as a device for one test.
func openCPU(t testing.TB) kernels.Device {
	t.Helper()
	d := cputest.Open(t, cpu.Options{})
	t.Cleanup(func() { d.Close() })
	return d
}

// device runs the programs of random graphs. The host sees its memory.
type device struct {
	name string
	open func(t testing.TB) kernels.Device
}

var devices = []device{{"cpu", openCPU}}

// each runs a test on every device.
func each(t *testing.T, test func(t *testing.T, dev kernels.Device)) {
	for _, d := range devices {
		t.Run(d.name, func(t *testing.T) { test(t, d.open(t)) })
	}
}

// parallel lets a test that runs on every device run in parallel with others, except with a GPU: its
// driver is one for all tests.
func parallel(t *testing.T) {
	if len(devices) == 1 {
	}
}

// updateOf returns the update by an optimizer, as the trainer configures it.
func updateOf(o optim.Optimizer, clip optim.Clip) Update {
	return Update{Rule: Rule{Op: o.Op(), Attrs: o.Attrs(clip, clip.Norm > 0), States: o.States}, ClipNorm: clip.Norm}
}

// machine is a program in the memory of a device, its regions one after the other.
type machine struct {
	*ir.Program
	homes  *ir.Homes
	dev    kernels.Device
	memory arena.Memory
	base   []int64
	stream arena.Stream
	exec   kernels.Program
}

// load places p in memory full of NaN, with its constants, and parameters and state of zeros.
func load(t testing.TB, dev kernels.Device, homes *ir.Homes, p *ir.Program) *machine {
	t.Helper()
	m := &machine{Program: p, homes: homes, dev: dev, base: make([]int64, ir.Regions)}
	var total int64
	for r := range ir.Regions {
		m.base[r] = total
		if total += homes.Bytes(r); r == ir.Scratch {
			total += p.Plan.Bytes
		}
	}
	var err error
	if m.memory, err = dev.Alloc(total); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.memory.Free() })
	if m.stream, err = dev.NewStream("test"); err != nil {
		t.Fatal(err)
	}
	if m.exec, err = dev.Bind(p.Calls(), kernels.Binding{Memory: m.memory, Base: m.base}); err != nil {
		t.Fatalf("bind %s: %v\n%v", p.Name, err, listing(p))
	}
	for r, b := range map[arena.Region]byte{ir.Gradients: 0xff, ir.Results: 0xff} {
		for i, all := 0, m.region(r); i < len(all); i++ {
			all[i] = b
		}
	}
	for _, c := range p.Constants {
		copy(m.at(p.Values[c.Value].Ref), c.Data)
	}
	m.poison()
	return m
}

// start writes the initial values of the parameters of g, and the controls of o's first update.
func (m *machine) start(t testing.TB, g *gorgonia.ExprGraph, o optim.Optimizer) {
	t.Helper()
	for _, n := range g.AllNodes() {
		for _, r := range []arena.Region{ir.Parameters, ir.HostParameters} {
			if part, ok := m.homes.Find(r, n.Name()); ok && n.IsVar() && n.Value() != nil {
				kernels.Store(m.at(part.Ref), part.Spec.Type, graphtest.Numbers(n.Value()))
			}
		}
	}
	m.controls(o, 1)
}

// controls writes the controls of o's update number t, if the program updates.
func (m *machine) controls(o optim.Optimizer, t int64) {
	if part, ok := m.homes.Find(ir.Slot, ir.ControlsName); ok {
		controls := elementsOf[float64](m.at(part.Ref))
		if err := optim.WriteControls(o, nil, t, controls); err != nil {
			panic(err)
		}
		controls[kernels.ControlStep] = float64(t)
	}
}

// elementsOf returns the bytes as elements, without a copy.
func elementsOf[T any](b []byte) []T {
	var t T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(t)))
}

// region returns the bytes of a region.
func (m *machine) region(r arena.Region) []byte {
	n := m.homes.Bytes(r)
	if r == ir.Scratch {
		n = m.Plan.Bytes
	}
	return m.memory.Bytes()[m.base[r]:][:n]
}

func (m *machine) at(ref arena.Ref) []byte {
	return m.memory.Bytes()[m.base[ref.Region]+ref.Offset:][:ref.Size]
}

// field returns the bytes of a field of the slot, nil where the program does not read it.
func (m *machine) field(name string) []byte {
	part, ok := m.homes.Find(ir.Slot, name)
	if !ok {
		return nil
	}
	return m.at(part.Ref)
}

// poison makes every float of scratch NaN.
func (m *machine) poison() {
	scratch := m.region(ir.Scratch)
	for i := range scratch {
		scratch[i] = 0xff
	}
}

func (m *machine) run(t testing.TB) {
	t.Helper()
	if err := m.exec.Launch(m.stream); err != nil {
		t.Fatal(err)
	}
	if err := m.stream.Sync(); err != nil {
		t.Fatalf("%v\n%v", err, listing(m.Program))
	}
}

// home returns a copy of the home called name in region r.
func (m *machine) home(t testing.TB, r arena.Region, name string) []byte {
	t.Helper()
	part, ok := m.homes.Find(r, name)
	if !ok {
		t.Fatalf("region %d has no %q", r, name)
	}
	return slices.Clone(m.at(part.Ref))
}

// numbers returns the elements of the home called name in region r.
func (m *machine) numbers(t testing.TB, r arena.Region, name string) []float64 {
	t.Helper()
	part, _ := m.homes.Find(r, name)
	xs := make([]float64, part.Spec.Shape.Elems())
	kernels.Load(xs, part.Spec.Type, m.home(t, r, name))
	return xs
}

// outcome is the contents of all homes after a step, by region and name.
type outcome map[string]string

// outcome returns results, gradients, parameters, state, running statistics and guard.
func (m *machine) outcome() outcome {
	o := outcome{}
	for r, name := range map[arena.Region]string{ir.Results: "result", ir.Gradients: "gradient", ir.Parameters: "parameter", ir.State: "state",
		ir.HostParameters: "parameter", ir.HostState: "state", ir.Statistics: "statistic", ir.Guard: "guard"} {
		for _, part := range m.homes.Parts(r) {
			o[name+" "+part.Name] = string(m.at(part.Ref))
		}
	}
	return o
}

// differs returns the first name, in order, whose bytes differ from want, "" for none. Names that
// only one of them has do not count.
func (o outcome) differs(want outcome) string {
	var names []string
	for name, b := range o {
		if w, ok := want[name]; ok && w != b {
			names = append(names, name)
		}
	}
	if names == nil {
		return ""
	}
	return slices.Min(names)
}

// listing returns the instructions of p with the places of their operands.
func listing(p *ir.Program) string {
	var s []byte
	for i, in := range p.Instrs {
		s = fmt.Appendf(s, "%3d %s %q %+v", i, in.Op.Name, in.Label, in.Attrs)
		for _, v := range in.In {
			s = fmt.Appendf(s, " %%%d %v @%d:%d", v, p.Values[v].Spec, p.Values[v].Ref.Region, p.Values[v].Ref.Offset)
		}
		for _, v := range in.Out {
			s = fmt.Appendf(s, " -> %%%d %v @%d:%d", v, p.Values[v].Spec, p.Values[v].Ref.Region, p.Values[v].Ref.Offset)
		}
		s = append(s, '\n')
	}
	return string(s)
}

// compileGraph compiles the model of cfg with g as its graph.
func compileGraph(g *gorgonia.ExprGraph, cfg Config) (*ir.Program, error) {
	cfg.Graph = g
	return Compile(context.Background(), cfg)
}

// compileFor compiles g and checks its plan, and fails the test on an error.
func compileFor(t testing.TB, g *gorgonia.ExprGraph, cfg Config) *ir.Program {
	t.Helper()
	if cfg.Homes == nil {
		cfg.Homes = &ir.Homes{}
	}
	p, err := compileGraph(g, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := arena.Check(p.Problem, p.Plan); err != nil {
		t.Fatal(err)
	}
	return p
}
