// Package wording has what text and pictures of plans share: how they write numbers and names.
package wording

import (
	"fmt"
	"strings"

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

// Category returns the name of a region without a number at its end.
func Category(region string) string {
	return strings.TrimRight(strings.TrimRight(region, "0123456789"), " ")
}

// At returns element i of s, or the zero value if s is shorter.
func At[T any](s []T, i int) (v T) {
	if i < len(s) {
		v = s[i]
	}
	return v
}
