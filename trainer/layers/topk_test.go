package layers_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/vm"
)

// places returns the places of the elements of a line, the largest first.
func places(line []float64) []int {
	at := make([]int, len(line))
	for i := range at {
		at[i] = i
	}
	slices.SortStableFunc(at, func(i, j int) int { return cmp.Compare(line[j], line[i]) })
	return at
}

func topkCases() []opCase {
	return []opCase{
		{name: "topk", in: [][]int{{3, 7}}, shape: []int{3, 4},
			build: func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node {
				y, _ := n.TopK(x[0], "best", 1, 4)
				return y
			},
			want: func(x [][]float64) (y []float64) {
				for r := range 3 {
					line := x[0][7*r : 7*r+7]
					for _, i := range places(line)[:4] {
						y = append(y, line[i])
					}
				}
				return y
			}},
		{name: "topk of columns, with indices", in: [][]int{{5, 2}}, shape: []int{2, 4},
			build: func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node {
				y, index := n.TopK(x[0], "", 0, 2)
				return n.Concat(gorgonia.Nodes{y, n.Cast(index, "", y.Dtype())}, "", 1)
			},
			want: func(x [][]float64) []float64 {
				y := make([]float64, 8)
				for c := range 2 {
					line := []float64{x[0][c], x[0][2+c], x[0][4+c], x[0][6+c], x[0][8+c]}
					for k, i := range places(line)[:2] {
						y[4*k+c], y[4*k+2+c] = line[i], float64(i)
					}
				}
				return y
			}},
		{name: "scatter sum", in: [][]int{{5, 2}}, shape: []int{3, 2},
			build: func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node {
				return n.ScatterSum(n.Constant([]int{2, 0, 3, 2, -1}, ""), x[0], "sums", 3)
			},
			want: func(x [][]float64) []float64 {
				return []float64{x[0][2], x[0][3], 0, 0, x[0][0] + x[0][6], x[0][1] + x[0][7]}
			}},
		{name: "argmax", in: [][]int{{2, 3, 2}}, shape: []int{2, 2}, flat: true,
			build: func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node {
				return n.Cast(n.ArgMax(x[0], "", -2), "", x[0].Dtype())
			},
			want: func(x [][]float64) (y []float64) {
				for b := range 2 {
					for c := range 2 {
						y = append(y, float64(places([]float64{x[0][6*b+c], x[0][6*b+2+c], x[0][6*b+4+c]})[0]))
					}
				}
				return y
			}},
	}
}

func scanCases() []opCase {
	return []opCase{
		{name: "cumsum", in: [][]int{{2, 4}}, shape: []int{2, 4},
			build: func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node { return n.CumSum(x[0], "", -1) },
			want: func(x [][]float64) []float64 {
				y := slices.Clone(x[0])
				for i := range y {
					if i%4 > 0 {
						y[i] += y[i-1]
					}
				}
				return y
			}},
		{name: "cumsum of columns", in: [][]int{{4, 3}}, shape: []int{4, 3},
			build: func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node { return n.CumSum(x[0], "sums", 0) },
			want: func(x [][]float64) []float64 {
				y := slices.Clone(x[0])
				for i := 3; i < len(y); i++ {
					y[i] += y[i-3]
				}
				return y
			}},
	}
}

// Indices are values of type int on both machines, and rows can be looked up by them.
func TestIndicesAreIntsOnBothMachines(t *testing.T) {
	dev := cputest.OpenChecked(t, cpu.Options{Threads: 1})
	for name, machine := range map[string]func(g *gorgonia.ExprGraph) (gorgonia.VM, error){
		"tape machine": func(g *gorgonia.ExprGraph) (gorgonia.VM, error) { return gorgonia.NewTapeMachine(g), nil },
		"vm":           func(g *gorgonia.ExprGraph) (gorgonia.VM, error) { return vm.New(g, vm.Options{Device: dev}) },
	} {
		n := layers.New(gorgonia.NewGraph())
		x := n.Input("x", 2, 3)
		best := n.ArgMax(x, "best", 1)
		rows := n.Embedding(best, "table", 3, 2)
		truncated := n.Cast(x, "", tensor.Int)
		chosen := n.Where(n.Constant([]float64{1, 0}, "", 2), best, n.Constant([]int{7, 8}, ""), "")
		if err := n.Err(); err != nil {
			t.Fatal(err)
		}
		if err := n.Values(1); err != nil {
			t.Fatal(err)
		}
		bind(t, x, []float64{1.5, 2.7, -3.9, 5, 5, 4})
		var index, whole, where, row gorgonia.Value
		gorgonia.Read(best, &index)
		gorgonia.Read(truncated, &whole)
		gorgonia.Read(chosen, &where)
		gorgonia.Read(rows, &row)
		m, err := machine(x.Graph())
		if err != nil {
			t.Fatal(err)
		}
		if err := m.RunAll(); err != nil {
			t.Fatal(name, err)
		}
		table := numbers(t, n.Params()[0].Node.Value())
		got := fmt.Sprint(index.Data(), whole.Data(), where.Data(), numbers(t, row))
		want := fmt.Sprint([]int{1, 0}, []int{1, 2, -3, 5, 5, 4}, []int{1, 8}, append(table[2:4:4], table[:2]...))
		if got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Gorgonia's machines run references, which compute in float64.
func TestIntegersThatAFloatDoesNotHoldAreExactOrAnError(t *testing.T) {
	for _, v := range []int{1<<53 + 1, -1<<53 - 1, math.MaxInt} {
		n := layers.New(gorgonia.NewGraph())
		x := n.Indices("x", 2)
		last := n.At(x, "last", 0, 1)
		let(t, x, tensor.New(tensor.WithShape(2), tensor.WithBacking([]int{0, v})))
		var got gorgonia.Value
		gorgonia.Read(last, &got)
		tape := gorgonia.NewTapeMachine(x.Graph())
		if err := tape.RunAll(); err == nil || !strings.Contains(err.Error(), "2^53") { // Gorgonia's errors do not unwrap
			t.Errorf("%d on a tape machine: got %v, %v, want an error that says why", v, got, err)
		}
		tape.Close()
		m, err := vm.New(x.Graph(), vm.Options{Device: cputest.OpenChecked(t, cpu.Options{Threads: 1})})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.RunAll(); err != nil || fmt.Sprint(got.Data()) != fmt.Sprint(v) {
			t.Errorf("%d on ours: got %v, %v", v, got, err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}
