package ir

import "github.com/evenkeel/evenkeel/kernels"

// Balance is how many floating-point operations a device does in the time of one byte of memory
// traffic: 5 to 20 in float32 on CPUs and GPUs. It weighs arithmetic
// against memory traffic in all estimates of time, which choose among plans and change no result.
const Balance = 10

// BusBalance is how many bytes a device reads or writes in its own memory in the time of one byte
// to or from the host: 20 to 60 on a GPU with PCI Express.
const BusBalance = 32

// Work estimates a part of a program.
type Work struct {
	Flops int64 // floating-point operations
	Bytes int64 // read and written
	Time  int64 // unit: the time of one byte of memory traffic; an instruction takes max(Bytes, Flops/Balance)
}

// Add returns the sums of the fields of w and v.
func (w Work) Add(v Work) Work { return Work{w.Flops + v.Flops, w.Bytes + v.Bytes, w.Time + v.Time} }

// Work returns what the program does in a step. Transfers run one after the other, concurrently
// with compute, from their place in the program on. A reader of a fetched value waits for its
// transfer; the end of the step waits for all transfers.
func (p *Program) Work() Work {
	// w.Time is the clock of compute. A transfer starts when compute has reached its position in
	// the program and the transfer before it is done:
	//
	//	compute  ├──── a ────┤├─ b ─┤      ├─ c ─┤     c reads the result of t2
	//	bus      ├─ t1 ─┤    ├──── t2 ────┤
	var w Work
	var bus int64 // the time at which the last transfer is done
	done := make(map[kernels.Value]int64)
	for i := range p.Instrs {
		in := &p.Instrs[i]
		x := p.WorkOf(in)
		if in.Op.IsTransfer() {
			bus = max(bus, w.Time) + x.Time
			done[in.Out[0]] = bus
			x.Time = 0
		} else if len(done) > 0 {
			for _, v := range in.In {
				w.Time = max(w.Time, done[v])
			}
		}
		w = w.Add(x)
	}
	w.Time = max(w.Time, bus)
	return w
}

// WorkOf returns the work of one instruction. A view has none.
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
	if in.Op.IsTransfer() {
		w.Time = BusBalance * outs[0].Bytes()
	}
	return w
}
