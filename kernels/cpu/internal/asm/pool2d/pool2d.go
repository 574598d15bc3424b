// Package pool2d holds the inner kernels of max and average pooling of float32 images and of their
// gradients.
//
// zz_pool2d_amd64.s (AVX2 and AVX-512) is written by internal/gen/norm; portable.go holds the Go
// twins of the 2x2 kernels. All give the same bits.
package pool2d

// Args2x2 are the arguments of a kernel for windows of 2x2 at stride 2: Rows rows of windows, each
// over two neighbouring rows of the image. The assembly reads the fields at fixed offsets.
type Args2x2 struct {
	X      []float32 // first pixel of the image
	Y      []float32 // first result or gradient
	Index  []uint8   // place of the maximum in its window, 0..3, like Y
	Rows   int       // rows of Y
	Width  int       // columns of Y
	Stride int       // elements from one row of the image to the next
}

// Kernels are the kernels of a level. Max2x2Grad and Avg2x2Grad write the gradient to X.
type Kernels struct {
	Max2x2     func(c *Args2x2) // Y, Index ← X
	Max2x2Grad func(c *Args2x2) // X ← Index, Y
	Avg2x2     func(c *Args2x2) // Y ← X
	Avg2x2Grad func(c *Args2x2) // X ← Y

	// Maxima of a row of windows of at most 256 pixels, stride 1 or 2. Nil: none.
	MaxRow func(c *RowArgs)
	AvgRow func(c *RowArgs) // means of a row of windows of any size, stride 1 or 2. Nil: none
}

// RowArgs are the arguments of a kernel for one row of windows. The assembly reads the fields at
// fixed offsets.
type RowArgs struct {
	X      []float32 // first row of the image that the windows cover
	Y      []float32 // results
	Index  []uint8   // place of the maximum in its window, like Y
	Rows   int       // rows of the image that the windows cover
	Stride int       // elements from one row of the image to the next
	Place  int       // place in its window of the first pixel of the first row
	Width  int       // columns of Y
	Image  int       // columns of the image
	Kernel int       // columns of a window
	Pad    int       // columns of padding on the left
	Step   int       // columns from window to window
	Share  []float32 // 1/count of each window, like Y
}
