package conv_test

import (
	"fmt"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/asmtest"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/conv"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/gemm"
)

const (
	rowsChannels = 2
	rowsPad      = 16  // elements after the last row of a place
	rowsSpill    = 7   // of which a row of one tile may write so many
	untouched    = 1e9 // what they hold before
)

// A rowsCase is one image of square planes, with a border of zeros.
type rowsCase struct {
	image        []float32
	side, border int
	n            int // rows and columns of tiles, of which the last may cover half
}

// Images that end or begin at a page that faults; every level gives the bits of the definition.
func TestRowsOfTilesAreTransformedInsideTheImage(t *testing.T) {
	r, seed := asmtest.Rand(t)
	page := asmtest.NewPage(t)
	tested := 0
	for _, level := range asmtest.Levels() {
		transform := conv.For(gemm.For(level, arena.Float32)).WinogradRows
		if transform == nil {
			continue // of this level there is none
		}
		tested++
		for side := 1; side <= 2*conv.MaxRowTiles; side++ {
			for border := range 3 {
				c := rowsCase{side: side, border: border, n: (side + 2*border - 1) / 2}
				if c.n < 1 || c.n > conv.MaxRowTiles {
					continue
				}
				c.image = asmtest.Elements[float32](page, rowsChannels*side*side, side%2 == 0)
				for i := range c.image {
					c.image[i] = float32(r.NormFloat64())
				}
				if wrong := c.test(transform); wrong != "" {
					t.Fatalf("%v, side %d, border %d: %s (seed %d)", level, side, border, wrong, seed)
				}
			}
		}
	}
	if tested == 0 {
		t.Error("no level transforms rows of tiles")
	}
}

// test returns what is wrong with the transform of the image.
func (c *rowsCase) test(transform func(*conv.WinogradRows)) string {
	n, side := c.n, c.side
	plane := rowsChannels*n*n + rowsPad
	dst := make([]float32, conv.WinogradPlaces*plane)
	for i := range dst {
		dst[i] = untouched
	}
	w := conv.WinogradRows{Src: asm.Bytes(c.image), Dst: asm.Bytes(dst), Rows: n, Step: 4 * n, Channels: rowsChannels,
		PlaneSrc: 4 * side * side, RowDst: 4 * n * n, PlaneDst: 4 * plane, Tiles: n}
	for row := range 4 * n {
		y, mask := row/4*2+row%4-c.border, uint32(0)
		for x := range 2*n + 2 {
			if c.inside(y, x-c.border) {
				mask |= 1 << x
			}
		}
		w.Masks, w.Offsets = append(w.Masks, mask), append(w.Offsets, int64(4*(y*side-c.border)))
	}
	transform(&w)
	for i, got := range dst {
		place, at := i/plane, i%plane
		if past := at - rowsChannels*n*n; past >= 0 {
			if past >= rowsSpill && got != untouched {
				return fmt.Sprintf("place %d wrote %d elements past its last row", place, past+1)
			}
			continue
		}
		if want := c.want(place, at/(n*n), at%(n*n)); got != want {
			return fmt.Sprintf("place %d of element %d is %g, want %g", place, at, got, want)
		}
	}
	return ""
}

// inside reports whether the image has a pixel.
func (c *rowsCase) inside(y, x int) bool { return y >= 0 && y < c.side && x >= 0 && x < c.side }

// want returns the element of Bᵀ·d·B of a tile.
func (c *rowsCase) want(place, channel, tile int) float32 {
	sum := func(i int, v func(i int) float32) float32 {
		switch i {
		case 0:
			return v(0) - v(2)
		case 1:
			return v(1) + v(2)
		case 2:
			return v(2) - v(1)
		}
		return v(1) - v(3)
	}
	return sum(place%4, func(j int) float32 {
		return sum(place/4, func(i int) float32 {
			y, x := tile/c.n*2-c.border+i, tile%c.n*2-c.border+j
			if !c.inside(y, x) {
				return 0
			}
			return c.image[(channel*c.side+y)*c.side+x]
		})
	})
}
