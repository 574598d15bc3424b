//go:build !amd64 || purego

package cpu

// turnerAt returns a level's transposition of whole squares, and their side; nil: none.
func turnerAt[T word](level) (f func(dst, src []T, rows, cols, rowStride, step int), side int) {
	return nil, 0
}
