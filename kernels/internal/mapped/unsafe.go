package mapped

import "unsafe"

// misalignment returns how many bytes b's start lies before the next multiple of align, a power of
// two.
func misalignment(b []byte, align int64) int64 {
	return int64(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) % uintptr(align))
}
