// Package wording writes numbers and names of plans for people.
package wording

import (
	"fmt"

	"github.com/dustin/go-humanize"
)

// Clip shortens s to n characters.
func Clip(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:max(n-1, 0)]) + "…"
	}
	return s
}

// Bytes writes n bytes with a binary unit.
func Bytes(n int64) string {
	if n < 0 {
		return "-" + humanize.IBytes(uint64(-n))
	}
	return humanize.IBytes(uint64(n))
}

// Share writes n as a percentage of of.
func Share(n, of int64) string {
	if of <= 0 {
		return "-"
	}
	if percent := 100 * float64(n) / float64(of); n == 0 || percent >= 0.05 {
		return fmt.Sprintf("%.1f %%", percent)
	}
	return "<0.1 %"
}
