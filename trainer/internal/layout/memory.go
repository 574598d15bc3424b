package layout

import (
	"fmt"
	"strings"

	humanize "github.com/dustin/go-humanize"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/report"
)

// AddDeviceMemory adds to a plan what a device needs outside the arena: its context, and pinned host memory. pinned is
// the part of the latter, in bytes, that the arena does not pin itself.
//
//	pinned host memory: | pinned, by the caller and the device | staging of the arena's handles |
//
// A device with unified memory pins nothing.
func AddDeviceMemory(p *report.Plan, dev kernels.Device, pinned int64) {
	p.Device = dev.Name()
	if info, err := dev.Info(); err == nil { // a closed device has no context
		p.Context = info.Context
	}
	if !dev.Unified() {
		p.Pinned = pinned + arena.StageBytes(p.Total)
	}
}

// StagingBytes returns the pinned bytes that a device allocates for itself to run p: one block, as large as the most
// demanding call needs.
func StagingBytes(dev kernels.Device, p *ir.Program) (bytes int64) {
	// A device without this capability pins nothing for itself.
	d, ok := dev.(kernels.HostStager)
	if !ok {
		return 0
	}
	for _, in := range p.Instrs {
		bytes = max(bytes, d.StagingBytes(in.Op, in.Attrs, p.Specs(in.In), p.Specs(in.Out)))
	}
	return bytes
}

// Available returns how many bytes of device memory a plan may use: limit, or what is free on the device if that is
// less. A limit of 0 means none. Where free memory is what counts, total is the memory of the device, else 0.
func Available(dev kernels.Device, limit int64) (have, total int64, err error) {
	info, err := dev.Info()
	if err != nil {
		return 0, 0, fmt.Errorf("memory of %s: %w", dev.Name(), err)
	}
	if limit == 0 || limit > info.Free {
		return info.Free, info.Total, nil
	}
	return limit, 0, nil
}

// Shortage returns a sentence about a plan that needs more bytes than there are, with its regions and the largest of its
// tensors. total is the memory of the device, or 0 if a limit is too small. All figures are bytes:
//
//	the plan needs 2048 bytes (2.0 KiB), there are 1024 bytes (1.0 KiB): 1024 bytes (1.0 KiB) missing
//	(parameters 512, scratch 1536; largest: hidden/relu 1024 (scratch) hidden/w 512 (parameters))
func Shortage(p *report.Plan, need, have, total int64) string {
	var s strings.Builder
	what := "the plan"
	if p == nil { // an error that a caller made
		p = &report.Plan{}
	}
	if len(p.Programs) > 0 && p.Programs[0].Recomputed > 0 {
		what = "the plan, with recomputation,"
	}
	fmt.Fprintf(&s, "%s needs %s, there are %s", what, FormatBytes(need), FormatBytes(have))
	if total > 0 {
		fmt.Fprintf(&s, " free of the device's %s", FormatBytes(total))
	}
	fmt.Fprintf(&s, ": %s missing", FormatBytes(need-have))
	sep := " ("
	for rest := p.Regions; len(rest) > 0; {
		name, n := rest[0].Name, slotsAhead(rest)
		if n > 2 {
			name = fmt.Sprintf("%d slots", n)
		} else {
			n = 1
		}
		size := int64(n) * rest[0].Size
		if rest = rest[n:]; size > 0 {
			fmt.Fprintf(&s, "%s%s %d", sep, name, size)
			sep = ", "
		}
	}
	for i, t := range p.Top(5) {
		if i == 0 {
			s.WriteString("; largest:")
		}
		fmt.Fprintf(&s, " %s %d (%s)", t.Label(), t.Bytes, t.Region)
	}
	if sep == ", " {
		s.WriteString(")")
	}
	return s.String()
}

// slotsAhead returns how many of the first regions are slots of one size.
func slotsAhead(regions []arena.RegionInfo) (n int) {
	for n < len(regions) && regions[n].Size == regions[0].Size && strings.HasPrefix(regions[n].Name, "slot ") {
		n++
	}
	return n
}

// FormatBytes returns a number of bytes for people.
func FormatBytes(n int64) string {
	if n == 1 {
		return "1 byte"
	}
	return fmt.Sprintf("%d bytes (%s)", n, humanize.IBytes(uint64(n)))
}
