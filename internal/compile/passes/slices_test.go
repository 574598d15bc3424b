package passes

import "testing"

func TestSlicesSpreadTheRowsEvenly(t *testing.T) {
	for rows := 2 * sliceRows; rows < 1500; rows++ {
		for n := 2; n <= rows/sliceRows; n++ {
			most, least, at := 0, rows, 0
			for k := range n {
				start, end := sliceStart(rows, n, k), sliceStart(rows, n, k+1)
				if start != at || start%sliceStep != 0 {
					t.Fatalf("%d rows, slice %d of %d begins at %d, the one before ends at %d", rows, k, n, start, at)
				}
				most, least, at = max(most, end-start), min(least, end-start), end
			}
			if at != rows || least < sliceRows || most != mostRows(rows, n) || most-least >= 2*sliceStep {
				t.Fatalf("%d rows in %d slices: %d to %d rows, the largest is said to have %d, the last ends at %d", rows, n, least, most, mostRows(rows, n), at)
			}
		}
	}
}
