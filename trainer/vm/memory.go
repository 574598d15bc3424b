package vm

import (
	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/internal/layout"
	"github.com/evenkeel/evenkeel/trainer/report"
)

// memory is the arena of a machine, with the places of the program's regions in it.
//
//	| parameters | gradients | controls | guard | results | scratch |
//
// All inputs of the graph lie in parameters. The regions controls and guard exist only if the
// program uses them.
type memory struct {
	layout  arena.Layout
	regions layout.Regions
	arena   *arena.Arena // nil before allocate
}

// place lays out the regions of a program.
func (m *memory) place(p *ir.Program, homes *ir.Homes) error {
	region := func(id arena.Region, name string) {
		m.regions[id].Region = layout.AddRegion(&m.layout, name, homes.Parts(id))
	}
	region(ir.Parameters, "parameters")
	region(ir.Gradients, "gradients")
	if homes.Bytes(ir.Slot) > 0 {
		region(ir.Slot, "controls")
	}
	if homes.Bytes(ir.Guard) > 0 {
		region(ir.Guard, "guard")
	}
	region(ir.Results, "results")
	region(ir.Scratch, "scratch")
	m.layout.Reserve(m.regions[ir.Scratch].Region, p.Plan.Bytes)
	return m.layout.Err()
}

// plan reports the layout, and what dev needs outside the arena to run p.
func (m *memory) plan(p *ir.Program, homes *ir.Homes, dev kernels.Device) *report.Plan {
	plan := &report.Plan{Mode: "machine", Regions: m.layout.Regions(), Total: m.layout.Total()}
	plan.Specs = layout.Specs(plan.Regions, homes)
	plan.Programs = []report.Program{layout.Describe(p, dev)}
	layout.AddDeviceMemory(plan, dev, layout.StagingBytes(dev, p))
	return plan
}

// checkCapacity returns a *CapacityError if the plan needs more than limit, or than the device has
// free. A limit of 0 is none.
func checkCapacity(plan *report.Plan, dev kernels.Device, limit int64) error {
	have, total, err := layout.Available(dev, limit)
	if err != nil || plan.Total <= have {
		return err
	}
	return &CapacityError{Need: plan.Total, Have: have, Total: total, Plan: plan}
}

// allocate makes the arena. Where the host sees it, it is Go memory: a program may keep slices of a
// node's elements, which must stay valid after Close.
func (m *memory) allocate(dev kernels.Device, limit int64) (err error) {
	var from arena.Device = dev
	if a, ok := dev.(kernels.GoAllocator); ok {
		from = goDevice{dev, a}
	}
	m.arena, err = arena.New(from, &m.layout, limit)
	return err
}

// goDevice is a device that allocates Go memory.
type goDevice struct {
	arena.Device
	kernels.GoAllocator
}

// Alloc is AllocGo.
func (d goDevice) Alloc(bytes int64) (arena.Memory, error) { return d.AllocGo(bytes) }

// binding returns the addresses of the regions.
func (m *memory) binding() kernels.Binding {
	return kernels.Binding{Memory: m.arena.Memory(), Base: m.regions.Bases(&m.layout)}
}

// handle returns a handle to a reference of the program.
func (m *memory) handle(ref arena.Ref, name string) (arena.Handle, error) {
	return m.arena.Handle(m.regions.Ref(ref), name)
}

// writeConstants writes the constants of a program to their homes.
func (m *memory) writeConstants(p *ir.Program) error {
	for _, c := range p.Constants {
		v := p.Values[c.Value]
		h, err := m.handle(v.Ref, v.Name)
		if err != nil {
			return err
		}
		if err := h.Write(c.Data); err != nil {
			return err
		}
	}
	return nil
}
