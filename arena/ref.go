package arena

// Align is the alignment in bytes of every offset in a layout, and of a buffer in a plan unless
// [Buffer].Align sets another.
const Align = 256

// Round rounds n up to a multiple of Align.
func Round(n int64) int64 { return (n + Align - 1) &^ (Align - 1) }

// Region is the index of a region in its layout.
type Region int32

// Ref is the place of a value: a range of a region. It is known before any memory exists.
type Ref struct {
	Region Region
	Offset int64 // bytes from the start of the region
	Size   int64 // bytes
}
