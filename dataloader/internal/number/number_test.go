package number_test

import (
	"encoding/binary"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader/internal/number"
)

// whole is what Int should do, by package strconv.
func whole(s string) (x int64, wrong string) {
	digits := strings.TrimPrefix(s, "-")
	if digits == s {
		digits = strings.TrimPrefix(s, "+")
	}
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, "no"
	}
	x, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, number.OutOfRange
	}
	return x, ""
}

// check compares a text with package strconv.
func check(t *testing.T, s string) {
	t.Helper()
	b := []byte(s)
	want, wrong := whole(s)
	got, problem := number.Int(b, math.MinInt64, math.MaxInt64)
	if got != want || (problem == "") != (wrong == "") || wrong == number.OutOfRange && problem != wrong {
		t.Errorf("Int(%q) = %d, %q; want %d, %q", s, got, problem, want, wrong)
	}
	decimal := s != "" && strings.Trim(s, "+-.0123456789eE") == ""
	wide, err := strconv.ParseFloat(s, 64)
	if x, problem := number.Float64(b); (problem == "") != (decimal && err == nil) {
		t.Errorf("Float64(%q) = %v, %q; want %v, %v", s, x, problem, wide, err)
	} else if problem == "" && math.Float64bits(x) != math.Float64bits(wide) {
		t.Errorf("Float64(%q) = %v, want %v", s, x, wide)
	}
	narrow, err := strconv.ParseFloat(s, 32)
	if x, problem := number.Float32(b); (problem == "") != (decimal && err == nil) {
		t.Errorf("Float32(%q) = %v, %q; want %v, %v", s, x, problem, narrow, err)
	} else if problem == "" && math.Float32bits(x) != math.Float32bits(float32(narrow)) {
		t.Errorf("Float32(%q) = %v, want %v", s, x, narrow)
	}
}

var odd = []string{"", "+", "-", ".", "+.", "-.", "e", "1e", "1e+", ".5", "5.", "+.5", "-.25", "-5.", "1.0", "1e3", "--1", "+-1", "1 ", " 1", "1_0", "0x1", "1e1e1", "1..2",
	"0", "-0", "+0", "007", "-007", "00000000000000000000000000000001", "-0000000000000000000000000009223372036854775808", "0000000000000000000000.5",
	"9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "9999999999999999999", "10000000000000000000",
	"18446744073709551615", "18446744073709551616", "18446744073709551617", "27670116110564327424", "-27670116110564327424", "-18446744073709551617",
	"9007199254740991", "9007199254740992", "9007199254740993", "1e22", "1e23", "1e-22", "1e-23", "123456789e22", "16777217", "16777217.0000000001", "33554433",
	"0.05773230455815792", "0.0784418173134327", "47.11184883117676", "0.8943617045879364", // nearest to a float64 that is the middle of two float32
	"3.4028235e38", "3.4028236e38", "3.40282356779733661637539395458142568447e38", "1.1754943e-38", "1e-45", "7e-46", "7.1e-46", "1e308", "1e309", "5e-324", "2e-324", "0e999999999999999999999",
	"1e999999999999999999999", "0.000000000000000000000000000000000000000000000001e48", "nan", "inf", "Infinity", "1,5"}

func TestNumbersAreThoseOfStrconv(t *testing.T) {
	for _, s := range odd {
		check(t, s)
		check(t, "-"+s)
		check(t, "0"+s)
	}
}

func TestBoundsAreKept(t *testing.T) {
	for _, c := range []struct {
		t    arena.DType
		s    string
		want bool
	}{
		{arena.Uint8, "255", true}, {arena.Uint8, "256", false}, {arena.Uint8, "0", true}, {arena.Uint8, "-1", false},
		{arena.Int32, "2147483647", true}, {arena.Int32, "2147483648", false}, {arena.Int32, "-2147483648", true}, {arena.Int32, "-2147483649", false},
		{arena.Int32, ".5", false}, {arena.Float32, "1e39", false}, {arena.Float64, "1e39", true},
	} {
		dst := make([]byte, 8)
		if wrong := number.Store(c.t, dst, []byte(c.s)); (wrong == "") != c.want {
			t.Errorf("Store(%v, %q): %q, want ok %v", c.t, c.s, wrong, c.want)
		}
		x, _ := strconv.ParseFloat(c.s, 64)
		if got := number.Holds(c.t, x); got != c.want {
			t.Errorf("Holds(%v, %v) = %v", c.t, x, got)
		}
	}
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if !number.Holds(arena.Float32, x) || !number.Holds(arena.Float64, x) || number.Holds(arena.Int64, x) || number.Holds(arena.Uint8, x) {
			t.Errorf("%v is held by floats only", x)
		}
	}
	if number.Holds(arena.Int64, 0x1p63) || !number.Holds(arena.Int64, -0x1p63) {
		t.Error("2^63 is no int64, and -2^63 is one")
	}
	dst := make([]byte, 8)
	if number.Put(arena.Int64, dst, -0x1p63); binary.NativeEndian.Uint64(dst) != 1<<63 {
		t.Errorf("Put(-2^63) wrote %x", dst)
	}
}

func FuzzNumbers(f *testing.F) {
	for _, s := range odd {
		f.Add(s)
	}
	f.Fuzz(check)
}
