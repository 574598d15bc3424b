//go:build amd64 && !purego

package cpu

import (
	"testing"
	"unsafe"
)

// TestTheAssemblyKnowsTheFieldsOfItsArguments compares the offsets in internal/gen/norm.
func TestTheAssemblyKnowsTheFieldsOfItsArguments(t *testing.T) {
	var p planeCall[float32]
	var r rowCall[float32]
	var r64 rowCall[float64]
	var h poolCall
	var d dropCall[float32]
	var w windowCall
	for _, f := range []struct {
		name      string
		got, want uintptr
	}{
		{"plane dy", unsafe.Offsetof(p.dy), 24}, {"plane y", unsafe.Offsetof(p.y), 48}, {"plane of", unsafe.Offsetof(p.of), 72},
		{"plane lanes", unsafe.Offsetof(p.lanes), 96}, {"plane n", unsafe.Offsetof(p.n), 120},
		{"plane channels", unsafe.Offsetof(p.channels), 128}, {"plane images", unsafe.Offsetof(p.images), 136},
		{"plane stride", unsafe.Offsetof(p.stride), 144}, {"plane relu", unsafe.Offsetof(p.relu), 152},
		{"row dy", unsafe.Offsetof(r.dy), 24}, {"row y", unsafe.Offsetof(r.y), 48}, {"row gamma", unsafe.Offsetof(r.gamma), 72},
		{"row beta", unsafe.Offsetof(r.beta), 96}, {"row mean", unsafe.Offsetof(r.mean), 120}, {"row rstd", unsafe.Offsetof(r.rstd), 144},
		{"row dgamma", unsafe.Offsetof(r.dgamma), 168}, {"row dbeta", unsafe.Offsetof(r.dbeta), 192}, {"row n", unsafe.Offsetof(r.n), 216},
		{"row rows", unsafe.Offsetof(r.rows), 224}, {"row eps", unsafe.Offsetof(r.eps), 232}, {"row share", unsafe.Offsetof(r.share), 236},
		{"row share 64", unsafe.Offsetof(r64.share), 240},
		{"pool y", unsafe.Offsetof(h.y), 24}, {"pool index", unsafe.Offsetof(h.index), 48}, {"pool rows", unsafe.Offsetof(h.rows), 72},
		{"pool width", unsafe.Offsetof(h.width), 80}, {"pool stride", unsafe.Offsetof(h.stride), 88},
		{"window y", unsafe.Offsetof(w.y), 24}, {"window index", unsafe.Offsetof(w.index), 48}, {"window rows", unsafe.Offsetof(w.rows), 72},
		{"window stride", unsafe.Offsetof(w.stride), 80}, {"window place", unsafe.Offsetof(w.place), 88}, {"window width", unsafe.Offsetof(w.width), 96},
		{"window image", unsafe.Offsetof(w.image), 104}, {"window kernel", unsafe.Offsetof(w.kernel), 112}, {"window pad", unsafe.Offsetof(w.pad), 120},
		{"window step", unsafe.Offsetof(w.step), 128}, {"window share", unsafe.Offsetof(w.share), 136},
		{"drop y", unsafe.Offsetof(d.y), 24}, {"drop n", unsafe.Offsetof(d.n), 48}, {"drop counter", unsafe.Offsetof(d.counter), 56},
		{"drop keys", unsafe.Offsetof(d.keys), 72}, {"drop least", unsafe.Offsetof(d.least), 232}, {"drop scale", unsafe.Offsetof(d.scale), 236},
		{"channel's values", ofLen, 8}, {"lanes", laneBytes, 64},
	} {
		if f.got != f.want {
			t.Errorf("%s: at %d, the assembly reads %d", f.name, f.got, f.want)
		}
	}
}
