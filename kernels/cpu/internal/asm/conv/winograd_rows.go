package conv

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"

// MaxRowTiles is the most tiles of a row that [WinogradRows] transforms: their pixels fill a vector
// of 16.
const MaxRowTiles = 7

// A WinogradRows is the arguments of the input transform Bᵀ·d·B of whole rows of up to MaxRowTiles
// tiles, straight from the image. Each sum is that of [WinogradInput]. A row of tiles covers four rows
// of 16 pixels, some of which may lie outside of the image.
type WinogradRows struct {
	Src []byte // pixels of the first channel
	Dst []byte // the first place; rows are ordered by channel
	// By row of tiles: bytes from Src to the first pixel of its four rows of pixels, which may be
	// negative, and the pixels of each that lie inside of the image.
	Offsets  []int64
	Masks    []uint32
	Rows     int // of tiles, at least 1
	Step     int // bytes from row to row of tiles in Dst
	Channels int // at least 1
	PlaneSrc int // bytes from channel to channel of Src
	RowDst   int // bytes from channel to channel of Dst
	PlaneDst int // bytes from place to place of Dst
	Tiles    int // of a row, for the Go twin; the assembly writes 8, in order
}

// goWinoRows is the Go twin of the transform of rows of tiles.
func goWinoRows[T asm.Float](w *WinogradRows) {
	size := asm.SizeOf[T]()
	src, dst, plane := asm.View[T](w.Src), asm.View[T](w.Dst), w.PlaneDst/size
	for c := range w.Channels {
		for row := range w.Rows {
			for tile := range w.Tiles {
				var d [4][4]T
				for i := range d {
					mask, at := w.Masks[4*row+i]>>(2*tile), (c*w.PlaneSrc+int(w.Offsets[4*row+i]))/size+2*tile
					for j := range 4 {
						if mask>>j&1 != 0 {
							d[i][j] = src[at+j]
						}
					}
				}
				at := (c*w.RowDst+row*w.Step)/size + tile
				winoTile(&d, dst[at:], plane)
			}
		}
	}
}

// winoTile writes Bᵀ·d·B to the 16 places of dst.
func winoTile[T asm.Float](d *[4][4]T, dst []T, plane int) {
	var t [4][4]T
	for j := range 4 {
		t[0][j], t[1][j], t[2][j], t[3][j] = d[0][j]-d[2][j], d[1][j]+d[2][j], d[2][j]-d[1][j], d[1][j]-d[3][j]
	}
	for i := range t {
		r := &t[i]
		dst[4*i*plane], dst[(4*i+1)*plane] = r[0]-r[2], r[1]+r[2]
		dst[(4*i+2)*plane], dst[(4*i+3)*plane] = r[2]-r[1], r[1]-r[3]
	}
}
