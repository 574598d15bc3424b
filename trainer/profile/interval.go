package profile

import (
	"cmp"
	"slices"
	"time"
)

// interval is a time from begin to before end.
type interval struct{ begin, end time.Duration }

// union returns the times that are in any of the intervals, as disjoint intervals in order. It
// overwrites all.
func union(all []interval) []interval {
	slices.SortFunc(all, func(a, b interval) int { return cmp.Compare(a.begin, b.begin) })
	var u []interval
	for _, x := range all {
		switch n := len(u) - 1; {
		case x.end <= x.begin:
		case n >= 0 && x.begin <= u[n].end:
			u[n].end = max(u[n].end, x.end)
		default:
			u = append(u, x)
		}
	}
	return u
}

// length returns the sum of the lengths of disjoint intervals.
func length(u []interval) (sum time.Duration) {
	for _, x := range u {
		sum += x.end - x.begin
	}
	return sum
}

// common returns the length of what two unions have in common.
func common(a, b []interval) (sum time.Duration) {
	for len(a) > 0 && len(b) > 0 {
		if lo, hi := max(a[0].begin, b[0].begin), min(a[0].end, b[0].end); hi > lo {
			sum += hi - lo
		}
		if a[0].end < b[0].end {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return sum
}
