package emu

import (
	"unsafe"

	"github.com/evenkeel/evenkeel/arena"
)

// misalignment returns how many bytes b's start lies before the next multiple of arena.Align.
func misalignment(b []byte) int64 {
	return int64(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) % arena.Align)
}
