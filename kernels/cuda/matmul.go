package cuda

import (
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// matmulSize holds the dimensions of a product.
type matmulSize struct {
	batch, m, n, k int
	first, rows    int // the rows that are computed
}

func matmulSizeOf(t kernels.MatMulAttrs, in, out []kernels.Spec) matmulSize {
	a, y := in[0].Shape, out[0].Shape
	r := len(y) - 2
	s := matmulSize{batch: y[:r].Elems(), m: a[r], k: a[r+1], n: y[r+1], first: t.Rows[0], rows: y[r]}
	if t.TransA {
		s.m, s.k = s.k, s.m
	}
	return s
}

// matmulWork is the workspace of cuBLAS, or that of the partial sums if k is split. Selected rows
// of a product have the splits of the whole.
func matmulWork(p *properties, attrs any, in, out []kernels.Spec) int64 {
	s := matmulSizeOf(attrs.(kernels.MatMulAttrs), in, out)
	if p.cublas && kernels.ComputeTypeOf(attrs) == 0 {
		return gemmBytes(p)
	}
	return partialBytes(p, out[0].Type, s.m, s.n, s.k, s.batch)
}

// bindMatmul launches matmul.cu, with a second kernel if k is split; or cuBLAS, if factors are not
// rounded.
func bindMatmul(b *binding) error {
	t := b.Attrs.(kernels.MatMulAttrs)
	s := matmulSizeOf(t, kernels.Specs(b.In), kernels.Specs(b.Out))
	if s.batch == 0 || s.rows == 0 || s.n == 0 {
		return nil
	}
	if err := fits(s.m, s.n, s.k, s.batch); err != nil {
		return err
	}
	to := kernels.ComputeTypeOf(t)
	if b.props.cublas && s.k > 0 && to == 0 {
		return b.bindGemm(s, t)
	}
	typ := b.Out[0].Type
	plan := planProduct(b.props, s.m, s.n, s.k, s.batch)
	act, slope := activation(t.Act, t.ActAttrs)
	var bias addend
	switch {
	case t.Bias:
		bias.at = b.in(2)
	case t.Add:
		bias = addend{b.in(2), int64(s.n)}
	}

	// The rows in memory, and their alignment.
	a, leadA, leadB := b.in(0), s.k, s.n
	names := [2]string{"n", "n"}
	start := s.first * s.k
	if t.TransA {
		leadA, start, names[0] = s.m, s.first, "t"
	}
	if t.TransB {
		leadB, names[1] = s.k, "t"
	}
	if s.k > 0 {
		a += address(int64(start) * b.In[0].Type.Size())
	}
	lanes := 16 / int(typ.Size())
	wideA := wide(a, b.In[0].Type, lanes, leadA, s.m*s.k, alongOf(!t.TransA, s.k, s.rows))
	wideB := wide(b.in(1), b.In[1].Type, lanes, leadB, s.n*s.k, alongOf(t.TransB, s.k, s.n))

	tensor := tensorCores(b.props, typ, to, wideA && wideB)
	if plan.splits == 1 && tensor == Full && int64(s.batch)*int64(s.rows)*int64(s.n)*int64(max(s.k, 1)) <= smallProduct {
		b.directMatmul(s, t, a, bias, act, slope)
		return nil
	}
	x := chooseMatmul(b.props, s, plan, typ, to, tensor, wideA && wideB)
	grid := dim{tilesOf(s.rows, x.tile) * tilesOf(s.n, x.tile), min(s.batch, b.props.gridY), plan.splits}
	args := append(b.factors(a, x.halves), bias.at, bias.lead, b.out(0), b.work(), int32(s.rows), int32(s.n), int32(s.k), int64(leadA), int64(leadB),
		int64(s.m*s.k), int64(s.n*s.k), int32(s.batch), truth(wideA), truth(wideB), int32(plan.splits), int32(plan.perSplit), act, slope)
	b.launch(x.family, fmt.Sprintf("matmul_%s_%s%s_%d", x.number, names[0], names[1], x.tile), grid,
		line(productThreads), 0, args...)
	if plan.splits > 1 {
		rows := int64(s.batch) * int64(s.rows)
		b.launch("matmul", "matmul_end_"+suffix(typ), strided(b.props, rows*int64(s.n), productThreads), line(productThreads), 0,
			b.work(), bias.at, bias.lead, b.out(0), rows, int64(s.n), int32(plan.splits), act, slope)
	}
	return nil
}

// addend is the third operand of a product: a vector, or a matrix whose rows are lead elements
// apart.
type addend struct {
	at   address
	lead int64
}

// smallProduct is the largest number of multiplications for which a product uses no tiles.
const smallProduct = 1 << 14

// directMatmul launches a product in which every thread computes one result.
func (b *binding) directMatmul(s matmulSize, t kernels.MatMulAttrs, a address, bias addend, act int32, slope float64) {
	rowA, stepA, stepB, colB := s.k, 1, s.n, 1
	if t.TransA {
		rowA, stepA = 1, s.m
	}
	if t.TransB {
		stepB, colB = 1, s.k
	}
	results := int64(s.batch) * int64(s.rows) * int64(s.n)
	to := kernels.ComputeTypeOf(t)
	b.launch(half("matmul", to), "matmul_direct_"+number(b.Out[0].Type, to), strided(b.props, results, productThreads), line(productThreads), 0,
		append(b.factors(a, to != 0), bias.at, bias.lead, b.out(0), int32(s.rows), int32(s.n), int32(s.k), int64(rowA), int64(stepA), int64(stepB), int64(colB),
			int64(s.m*s.k), int64(s.n*s.k), int32(s.batch), act, slope)...)
}

// factors are the first arguments of a product: its factors, of which the first begins at a, and,
// for kernels that round them, which of them are stored in 16 bits.
func (b *binding) factors(a address, halves bool) []any {
	args := []any{a, b.in(1)}
	if halves {
		args = append(args, truth(b.In[0].Type.Half())|truth(b.In[1].Type.Half())<<1)
	}
	return args
}

// number is the part of a kernel's name for the type of its factors: typ, the type of the result,
// or the type that they are rounded to.
func number(typ, to arena.DType) string {
	switch to {
	case arena.BFloat16:
		return BFloat16.String()
	case arena.Float16:
		return Float16.String()
	}
	return suffix(typ)
}

// tensorCores returns the type that factors are rounded to on tensor cores: that of the call, or
// else of the device's options. It is Full if tensor cores are not used, for example because
// factors are not wide.
func tensorCores(p *properties, typ, to arena.DType, wide bool) Precision {
	switch {
	case typ != arena.Float32 || p.capability < 80 || !wide:
		return Full
	case to == arena.BFloat16:
		return BFloat16
	case to == arena.Float16:
		return Float16
	}
	return p.precision
}

// half returns the family of kernels for factors that are rounded to type to, 0 for none.
func half(family string, to arena.DType) string {
	if to != 0 {
		return family + "_half"
	}
	return family
}

// matmulKernel is a kernel of matmul.cu, matmul_half.cu or matmul_sm80.cu, without the transposes.
type matmulKernel struct {
	family, number string
	tile           int
	halves         bool // it has an argument for which factors are stored in 16 bits
}

// chooseMatmul picks the kernel of a product of type typ, whose factors are rounded to type to, on
// tensor cores unless tensor is Full. wide: 16 bytes of both operands, or four elements of 16 bits,
// can be loaded at once.
func chooseMatmul(p *properties, s matmulSize, plan productPlan, typ, to arena.DType, tensor Precision,
	wide bool) matmulKernel {
	switch large := tilesOf(s.rows, largeTile) * tilesOf(s.n, largeTile) * s.batch * plan.splits; {
	case tensor != Full:
		return matmulKernel{"matmul_sm80", tensor.String(), largeTile, tensor != TF32}
	case typ == arena.Float32 && to == 0 && wide && large >= p.processors:
		return matmulKernel{"matmul", number(typ, to), largeTile, false}
	}
	return matmulKernel{half("matmul", to), number(typ, to), smallTile, to != 0}
}

// alongOf returns the length of an operand's rows in memory: of k where that is contiguous, else of
// its other dimension.
func alongOf(alongK bool, k, rows int) int {
	if alongK {
		return k
	}
	return rows
}

// wide reports whether a kernel can load lanes neighbouring elements of a matrix at once: rows of
// lead elements and matrices of step elements begin at aligned addresses, and the part of a row
// that is read is a multiple of lanes.
func wide(at address, typ arena.DType, lanes, lead, step, along int) bool {
	return int64(at)%(int64(lanes)*typ.Size()) == 0 && lead%lanes == 0 && step%lanes == 0 && along%lanes == 0
}

func truth(b bool) int32 {
	if b {
		return 1
	}
	return 0
}
