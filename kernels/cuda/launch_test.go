package cuda

import (
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// gpu is a device as launches see it.
func gpu(processors int) *properties {
	return &properties{name: "test", capability: 70, processors: processors, warp: 32, threads: 1024, shared: 48 << 10, sharedMost: 96 << 10,
		gridX: 1<<31 - 1, gridY: 1<<16 - 1}
}

// callOf places the operands of a case one after the other, and its workspace.
func callOf(t testing.TB, p *properties, op *kernels.Op, attrs any, in []kernels.Spec) (c kernels.Call, size int64) {
	t.Helper()
	specs, err := op.Infer(attrs, in)
	if err != nil {
		t.Fatal(err)
	}
	place := func(bytes int64) arena.Ref {
		r := arena.Ref{Offset: size, Size: bytes}
		size += (bytes + 255) / 256 * 256
		return r
	}
	c = kernels.Call{Op: op, Attrs: attrs, Label: op.Name}
	for _, s := range in {
		c.In = append(c.In, kernels.Operand{Spec: s, Ref: place(s.Bytes())})
	}
	updates := op.UpdatesFor(attrs)
	for k, s := range specs {
		o := kernels.Operand{Spec: s}
		if k < len(updates) {
			o.Ref = c.In[updates[k]].Ref
		} else {
			o.Ref = place(s.Bytes())
		}
		c.Out = append(c.Out, o)
	}
	c.Work = place(workspace(p, op, attrs, in, specs))
	return c, size
}

// entries are the kernels of some PTX and how many parameters each has.
func entries(ptx string) map[string]int {
	n := map[string]int{}
	for _, m := range regexp.MustCompile(`(?s)\.entry\s+(\w+)\s*\((.*?)\)`).FindAllStringSubmatch(ptx, -1) {
		n[m[1]] = strings.Count(m[2], ".param")
	}
	return n
}

func TestEveryLaunchFitsAKernelOfItsModule(t *testing.T) {
	modules := map[string]map[string]int{}
	for op := range table {
		t.Run(op.Name, func(t *testing.T) {
			for seed := range uint64(60) {
				r := rand.New(rand.NewPCG(seed, 1))
				typ := []arena.DType{arena.Float32, arena.Float64}[seed%2]
				p := gpu(1 + r.IntN(150))
				p.precision, p.cublas = Precision(r.IntN(4)), r.IntN(3) == 0
				k := op.Cases(r, typ)
				call, size := callOf(t, p, op, k.Attrs, k.In)
				steps, err := bindAt(p, []kernels.Call{call}, 1<<20, size, []int64{0})
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				for _, s := range steps {
					if s.kind != stepKernel {
						continue
					}
					have := modules[s.module.family]
					if s.module.family == "" {
						have = entries(s.module.text)
					} else if have == nil {
						text, err := os.ReadFile("zz_" + s.module.family + ".ptx")
						if err != nil {
							t.Fatal(err)
						}
						have = entries(string(text))
						modules[s.module.family] = have
					}
					if n, ok := have[s.function]; !ok || n != len(s.args) {
						t.Fatalf("seed %d: %s of module %q takes %d arguments (it exists: %v), got %d", seed, s.function, s.module.family, n, ok, len(s.args))
					}
					for _, b := range []struct{ got, most int }{{s.grid.x, p.gridX}, {s.grid.y, p.gridY}, {s.grid.z, p.gridY}, {s.block.x * s.block.y * s.block.z, p.threads}} {
						if b.got < 1 || b.got > b.most {
							t.Fatalf("seed %d: %s: grid %v of blocks %v is more than the device has", seed, s.function, s.grid, s.block)
						}
					}
				}
			}
		})
	}
}
