package cuda

import (
	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// gemm is a product as cuBLAS computes it. cuBLAS is column-major, so that rows here are its
// columns: it gets b and a, in this order, and computes the transpose of a·b.
type gemm struct {
	transA, transB      bool // of its operands, the first of which is our b
	m, n, k, batch      int
	a, b, c             address
	leadA, leadB, leadC int
	stepA, stepB, stepC int64 // elements from a matrix to the next
	add                 bool  // to the contents of c
	double              bool  // elements of float64
	precision           Precision
	work                address
	workBytes           int64
}

// gemmBytes is the workspace of a product by cuBLAS that NVIDIA recommends: 32 MiB since Hopper, 4
// MiB before. More does not help; with less cuBLAS may choose slower kernels.
// Source: cuBLAS documentation, cublasSetWorkspace.
func gemmBytes(p *properties) int64 {
	if p.capability >= 90 {
		return 32 << 20
	}
	return 4 << 20
}

// bindGemm appends a product by cuBLAS. A sum is first copied to the result; bias and activation
// follow.
func (b *binding) bindGemm(s matmulSize, t kernels.MatMulAttrs) error {
	typ := b.Out[0].Type
	a := b.in(0) + address(int64(s.first)*int64(s.k)*typ.Size())
	if t.TransA {
		a = b.in(0) + address(int64(s.first)*typ.Size())
	}
	rows := int64(s.batch) * int64(s.rows)
	if t.Add {
		b.copy(b.out(0), b.in(2), rows*int64(s.n)*typ.Size())
	}
	g := &gemm{transA: t.TransB, transB: t.TransA, m: s.n, n: s.rows, k: s.k, batch: s.batch, a: b.in(1), b: a, c: b.out(0),
		leadA: s.n, leadB: s.k, leadC: s.n, stepA: int64(s.n) * int64(s.k), stepB: int64(s.m) * int64(s.k), stepC: int64(s.rows) * int64(s.n),
		add: t.Add, double: typ == arena.Float64, precision: b.props.precision, work: b.work(), workBytes: b.Work.Size}
	if t.TransB {
		g.leadA = s.k
	}
	if t.TransA {
		g.leadB = s.m
	}
	b.append(step{kind: stepGemm, gemm: g})
	if !t.Bias && t.Act == nil {
		return nil
	}
	var bias address
	if t.Bias {
		bias = b.in(2)
	}
	act, slope := activation(t.Act, t.ActAttrs)
	b.launch("matmul", "matmul_end_"+suffix(typ), strided(b.props, rows*int64(s.n), productThreads), line(productThreads), 0,
		b.out(0), bias, int64(0), b.out(0), rows, int64(s.n), int32(1), act, slope)
	return nil
}
