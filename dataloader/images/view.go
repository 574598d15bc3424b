package images

import (
	"image"
	"math"
)

// view is a crop, scaling and reflection of a source that has not been computed yet: steps of
// geometry change the view, and one pass over the source then fills the result.
//
//	source ── box ──► scaled to fullW × fullH ── window ──► reflected ──► picture of w × h
type view struct {
	x0, x1, y0, y1 float64 // the box in samples of the source
	fullW, fullH   int     // of the scaled box
	x, y, w, h     int     // the window in the scaled box
	flipX, flipY   bool
}

// whole returns the view of an unchanged source.
func whole(w, h int) view {
	return view{x1: float64(w), y1: float64(h), fullW: w, fullH: h, w: w, h: h}
}

// unchanged reports whether v is the view of an unchanged source of w × h.
func (v view) unchanged(w, h int) bool { return v == whole(w, h) }

// scaled reports whether the box is resized.
func (v view) scaled() bool {
	return v.x1-v.x0 != float64(v.fullW) || v.y1-v.y0 != float64(v.fullH)
}

// crop takes the rectangle of w × h at (x, y) of the picture.
func (v *view) crop(x, y, w, h int) {
	if v.flipX {
		x = v.w - x - w
	}
	if v.flipY {
		y = v.h - y - h
	}
	v.x, v.y, v.w, v.h = v.x+x, v.y+y, w, h
}

// resize scales the picture to w × h. The view must not be scaled yet.
func (v *view) resize(w, h int) {
	v.x0, v.x1 = v.x0+float64(v.x), v.x0+float64(v.x+v.w)
	v.y0, v.y1 = v.y0+float64(v.y), v.y0+float64(v.y+v.h)
	v.x, v.y, v.w, v.h, v.fullW, v.fullH = 0, 0, w, h, w, h
}

// shrunk returns the view of the source when it is decoded at 1/by of its size, w × h.
func (v view) shrunk(fromW, fromH, w, h int) view {
	fx, fy := float64(w)/float64(fromW), float64(h)/float64(fromH)
	v.x0, v.x1, v.y0, v.y1 = v.x0*fx, v.x1*fx, v.y0*fy, v.y1*fy
	return v
}

func (v view) horizontal() span {
	return span{lo: v.x0, hi: v.x1, full: v.fullW, from: v.x, n: v.w, flip: v.flipX}
}

func (v view) vertical() span {
	return span{lo: v.y0, hi: v.y1, full: v.fullH, from: v.y, n: v.h, flip: v.flipY}
}

// box returns the samples that the box touches.
func (v view) box() image.Rectangle {
	lo, hi := math.Floor(v.x0), math.Ceil(v.x1)
	top, bottom := math.Floor(v.y0), math.Ceil(v.y1)
	return image.Rect(int(lo), int(top), int(hi), int(bottom))
}

// move shifts the box.
func (v *view) move(x, y int) {
	v.x0, v.x1, v.y0, v.y1 = v.x0+float64(x), v.x1+float64(x), v.y0+float64(y), v.y1+float64(y)
}
