package numeric

import "math"

// Descending compares two numbers for an order from large to small: below 0 if a comes first, 0 if they
// are equal. NaN comes before all numbers.
func Descending[T float32 | float64](a, b T) int {
	switch {
	case a > b, a != a && b == b:
		return -1
	case a < b, a == a && b != b:
		return 1
	}
	return 0
}

// ToInt64 returns x without its fraction. Values beyond int64 become its smallest or largest one, NaN
// becomes 0.
func ToInt64(x float64) int64 {
	switch {
	case x != x:
		return 0
	case x >= 0x1p63:
		return math.MaxInt64
	case x < -0x1p63:
		return math.MinInt64
	}
	return int64(x)
}
