package arena

// Align is the alignment in bytes of every offset that a layout or plan gives out.
const Align = 256

// Round returns the next multiple of Align that is not below n.
func Round(n int64) int64 { return (n + Align - 1) &^ (Align - 1) }

// Region is the index of a region in its layout.
type Region int32

// Ref says where a value lies, before any memory exists: an offset into a region.
type Ref struct {
	Region Region
	Offset int64 // bytes from the start of the region
	Size   int64 // bytes
}
