package cuda

import "github.com/evenkeel/evenkeel/kernels"

// matmulSize is a product in numbers.
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

// matmulWork is cuBLAS's, or the partial sums where k is split. Rows of a product have the splits of the whole.
func matmulWork(p *properties, attrs any, in, out []kernels.Spec) int64 {
	s := matmulSizeOf(attrs.(kernels.MatMulAttrs), in, out)
	if p.cublas {
		return gemmBytes(p)
	}
	return partialBytes(p, out[0].Type, s.m, s.n, s.k, s.batch)
}

// bindMatmul launches matmul.cu, one kernel, and another where k is split; or cuBLAS.
func bindMatmul(b *binding) error {
	t := b.Attrs.(kernels.MatMulAttrs)
	s := matmulSizeOf(t, kernels.Specs(b.In), kernels.Specs(b.Out))
	if s.batch == 0 || s.rows == 0 || s.n == 0 {
		return nil
	}
	if err := fits(s.m, s.n, s.k, s.batch); err != nil {
		return err
	}
	if b.props.cublas && s.k > 0 {
		return b.bindGemm(s, t)
	}
	typ := b.Out[0].Type
	size := int(typ.Size())
	plan := planProduct(b.props, s.m, s.n, s.k, s.batch)
	act, slope := activation(t.Act, t.ActAttrs)
	var bias addend
	switch {
	case t.Bias:
		bias.at = b.in(2)
	case t.Add:
		bias = addend{b.in(2), int64(s.n)}
	}

	// Rows of memory, and what follows from how they lie.
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
		a += address(start * size)
	}
	wideA := wide(a, size, leadA, s.m*s.k, alongOf(!t.TransA, s.k, s.rows))
	wideB := wide(b.in(1), size, leadB, s.n*s.k, alongOf(t.TransB, s.k, s.n))

	if plan.splits == 1 && b.props.precision == Full && int64(s.batch)*int64(s.rows)*int64(s.n)*int64(max(s.k, 1)) <= smallProduct {
		b.directMatmul(s, t, a, bias, act, slope)
		return nil
	}
	x := chooseMatmul(b.props, s, plan, size, wideA && wideB)
	grid := dim{tilesOf(s.rows, x.tile) * tilesOf(s.n, x.tile), min(s.batch, b.props.gridY), plan.splits}
	args := []any{a, b.in(1), bias.at, bias.lead, b.out(0), b.work(), int32(s.rows), int32(s.n), int32(s.k), int64(leadA), int64(leadB),
		int64(s.m * s.k), int64(s.n * s.k), int32(s.batch)}
	if x.asks {
		args = append(args, truth(wideA), truth(wideB))
	}
	args = append(args, int32(plan.splits), int32(plan.perSplit), act, slope)
	b.launch(x.family, "matmul_"+x.number+"_"+names[0]+names[1]+x.ending, grid, line(productThreads), 0, args...)
	if plan.splits > 1 {
		rows := int64(s.batch) * int64(s.rows)
		b.launch("matmul", "matmul_end_"+suffix(typ), strided(b.props, rows*int64(s.n), productThreads), line(productThreads), 0,
			b.work(), bias.at, bias.lead, b.out(0), rows, int64(s.n), int32(plan.splits), act, slope)
	}
	return nil
}

// An addend is what is added to a product: a vector, or a matrix of which the rows are lead elements apart.
type addend struct {
	at   address
	lead int64
}

// smallProduct is up to how many multiplications a product is not worth tiles.
const smallProduct = 1 << 14

// directMatmul launches a product of which every thread computes a result by itself.
func (b *binding) directMatmul(s matmulSize, t kernels.MatMulAttrs, a address, bias addend, act int32, slope float64) {
	rowA, stepA, stepB, colB := s.k, 1, s.n, 1
	if t.TransA {
		rowA, stepA = 1, s.m
	}
	if t.TransB {
		stepB, colB = 1, s.k
	}
	results := int64(s.batch) * int64(s.rows) * int64(s.n)
	b.launch("matmul", "matmul_direct_"+suffix(b.Out[0].Type), strided(b.props, results, productThreads), line(productThreads), 0,
		a, b.in(1), bias.at, bias.lead, b.out(0), int32(s.rows), int32(s.n), int32(s.k), int64(rowA), int64(stepA), int64(stepB), int64(colB),
		int64(s.m*s.k), int64(s.n*s.k), int32(s.batch), act, slope)
}

// A matmulKernel is one of those of matmul.cu and matmul_sm80.cu, but for the transposes.
type matmulKernel struct {
	family, number, ending string
	tile                   int
	asks                   bool // whether operands are wide
}

// chooseMatmul picks the kernel of a product; wide says that of both operands 16 bytes can be loaded at once.
func chooseMatmul(p *properties, s matmulSize, plan productPlan, size int, wide bool) matmulKernel {
	switch large := tilesOf(s.rows, largeTile) * tilesOf(s.n, largeTile) * s.batch * plan.splits; {
	case size == 8:
		return matmulKernel{"matmul", "f64", "_64", smallTile, true}
	case p.precision != Full && wide:
		return matmulKernel{"matmul_sm80", p.precision.String(), "", largeTile, false}
	case wide && large >= p.processors:
		return matmulKernel{"matmul", "f32", "_128", largeTile, true}
	}
	return matmulKernel{"matmul", "f32", "_64", smallTile, true}
}

// alongOf returns the length of an operand's rows in memory: of k where that is contiguous, else of its other dimension.
func alongOf(alongK bool, k, rows int) int {
	if alongK {
		return k
	}
	return rows
}

// wide says whether every 16 bytes of a matrix that begin at a multiple of them in its rows can be loaded at once: its rows, of lead
// elements each, and its matrices, of step elements each, begin at such addresses, and the part of a row that is read is whole.
func wide(at address, size, lead, step, along int) bool {
	lanes := 16 / size
	return at%16 == 0 && lead%lanes == 0 && step%lanes == 0 && along%lanes == 0
}

func truth(b bool) int32 {
	if b {
		return 1
	}
	return 0
}
