package cpu

import (
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/elementwise"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/gemm"
)

// MatMulVariants lists the kernels for t that this processor can run, fastest first, and "wide" for tests.
func MatMulVariants(t arena.DType) []string {
	return named(slices.DeleteFunc(append(isas(), wide...), func(s *gemm.Kernels) bool { return s.Float32 != nil }), t)
}

// RoundingVariants lists the same for products with results of type t whose factors are rounded to the type to.
func RoundingVariants(t, to arena.DType) []string {
	return named(slices.DeleteFunc(allISAs(), func(s *gemm.Kernels) bool { return s.Rounding(to) == nil }), t)
}

// isas lists the kernels that this processor can run, fastest first.
func isas() []*gemm.Kernels {
	var list []*gemm.Kernels
	for l := int(asm.Best()); l >= 0; l-- {
		list = append(list, gemm.For(asm.Level(l), arena.Float32), gemm.For(asm.Level(l), arena.Float64))
	}
	return list
}

// roundingISAs lists the kernels for factors that are rounded.
func roundingISAs() []*gemm.Kernels {
	list := isas()
	if s := gemm.BFloat16Pairs(); s != nil {
		list = append([]*gemm.Kernels{s}, list...)
	}
	return slices.DeleteFunc(list, func(s *gemm.Kernels) bool { return s.BFloat16 == nil })
}

func allISAs() []*gemm.Kernels { return slices.Concat(roundingISAs(), isas(), wide) }

func named(list []*gemm.Kernels, t arena.DType) []string {
	var names []string
	for _, s := range list {
		if s.Type == t && !slices.Contains(names, s.Name) {
			names = append(names, s.Name)
		}
	}
	return names
}

func variant(name string, t arena.DType) *gemm.Kernels {
	all := allISAs()
	return all[slices.IndexFunc(all, func(s *gemm.Kernels) bool { return s.Name == name && s.Type == t })]
}

// BindMatMul prepares a product for one variant, on operands in mem.
func BindMatMul(name string, p *Pool, c kernels.Call, mem []byte, base []int64) (func(), error) {
	x, err := newMatmul(variant(name, c.Out[0].Type), &binding{Call: c, dev: &Device{pool: p, level: asm.Best()}, mem: mem, base: base})
	if x == nil || err != nil {
		return func() {}, err
	}
	return x.launch(p), nil
}

// MatMulWorkspace is the workspace of a product for one variant.
func MatMulWorkspace(name string, threads int, attrs kernels.MatMulAttrs, in, out []kernels.Spec) int64 {
	return sizedPlan(variant(name, out[0].Type), attrs, in, out).workspace(threads)
}

// MatMulNeed is how much of its workspace a product uses.
func MatMulNeed(name string, threads int, attrs kernels.MatMulAttrs, in, out []kernels.Spec) int64 {
	p := newMatmulPlan(variant(name, out[0].Type), threads, attrs, in, out)
	return int64(p.workers(threads)) * int64(p.panel+p.block+p.stage+p.transposeBytes)
}

// Activate applies an activation in place, as the op alone does.
func Activate(op *kernels.Op, attrs any, t arena.DType, data []byte) {
	if t == arena.Float32 {
		inPlace(elementwise.Unary[float32](asm.Best(), op, attrs))(data)
	} else {
		inPlace(elementwise.Unary[float64](asm.Best(), op, attrs))(data)
	}
}

// Elements returns data as elements of T.
func Elements[T any](data []byte) []T { return asm.View[T](data) }

// ActivateSums is Activate on numbers in float64.
func ActivateSums(op *kernels.Op, attrs any, v []float64) {
	elementwise.Unary[float64](asm.Portable, op, attrs)(v, v)
}
