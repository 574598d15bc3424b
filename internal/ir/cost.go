package ir

// Balance is how many floating-point operations a device does in the time that a byte takes to or from memory. CPUs and GPUs have 5 to 20 in
// float32; it decides only which instructions count as bound by memory.
const Balance = 10

// Work is what a part of a program does.
type Work struct {
	Flops int64 // floating-point operations
	Bytes int64 // that are read and written
	Time  int64 // in bytes that could cross memory meanwhile: of each instruction, the larger of Bytes and Flops/Balance
}

// Add adds w's parts.
func (w Work) Add(v Work) Work { return Work{w.Flops + v.Flops, w.Bytes + v.Bytes, w.Time + v.Time} }

// Work returns what the program does in a step.
func (p *Program) Work() Work {
	var w Work
	for i := range p.Instrs {
		w = w.Add(p.WorkOf(&p.Instrs[i]))
	}
	return w
}

// WorkOf returns what an instruction does. A view does nothing.
func (p *Program) WorkOf(in *Instr) Work {
	if p.IsView(in) {
		return Work{}
	}
	ins, outs := p.Specs(in.In), p.Specs(in.Out)
	var w Work
	for _, s := range ins {
		w.Bytes += s.Bytes()
	}
	for _, s := range outs {
		w.Bytes += s.Bytes()
	}
	switch {
	case in.Op.Cost != nil:
		w.Flops = in.Op.Cost(in.Attrs, ins, outs)
	case len(outs) > 0:
		w.Flops = int64(outs[0].Shape.Elems())
	}
	w.Time = max(w.Bytes, w.Flops/Balance)
	return w
}
