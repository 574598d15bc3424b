package gemm_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/float16"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/asmtest"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/gemm"
)

// Few processors have AVX-512. This test executes the text of the generated tile kernels in an
// interpreter of the instructions that they use, so that all of them are checked everywhere: their
// sums, their ends, and that they touch nothing but their operands. Where the processor runs them,
// the other tests of products check the interpreter.

// Where operands lie in the interpreter's address space.
const (
	atTile  = 0x1_0000
	atMasks = 0x2_0000
	atA     = 0x10_0000
	atB     = 0x20_0000
	atC     = 0x30_0000
	atBias  = 0x40_0000
	atPanel = 0x50_0000

	atRounding     = 0x60_0000
	atWideRounding = 0x70_0000
)

func TestGeneratedTilesComputeWhatTheyShould(t *testing.T) {
	functions := parseAssembly(t, "zz_gemm_amd64.s")
	r, seed := asmtest.Rand(t)
	form := regexp.MustCompile(`^(tile|wideTile|line|wideLine)(\d+)x(\d+)x(\d+)$`)
	found := 0
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		f, p := functions[name], form.FindStringSubmatch(name)
		if p == nil {
			continue
		}
		found++
		rows, _ := strconv.Atoi(p[2])
		cols, _ := strconv.Atoi(p[3])
		bits, _ := strconv.Atoi(p[4])
		least := 1
		if strings.HasSuffix(strings.ToLower(p[1]), "line") {
			least = cols // all exist
		}
		for n := cols; n >= least; n-- {
			if rows > 2 && n < cols && r.IntN(cols) > 3 { // all edges of few rows, some of many
				continue
			}
			e := &emulation{f: f, rows: rows, more: r.IntN(3), cols: cols, size: bits / 8, n: n, k: r.IntN(10), flags: r.IntN(8)}
			if n == cols && least == 1 && r.IntN(2) == 0 { // a tile that may be told to pack B
				e.more, e.packs = 0, cols*bits/8 == 2*vectorBytes(p[1])
			}
			run := func() {
				if err := e.run(r); err != nil {
					t.Errorf("%s, %d columns, k %d, flags %d, kind %d: %v (seed %d)", name, e.n, e.k, e.flags, e.kind, err, seed)
				}
			}
			run()
			if packs := cols*bits/8 == 2*vectorBytes(p[1]); bits == 32 && n == cols && (packs || least > 1) {
				for e.kind = 1; e.kind <= 4; e.kind++ {
					e.more, e.packs = 0, packs
					run()
				}
			}
		}
	}
	if want := 2 * (2*(6+14) + 2 + 3); found != want {
		t.Errorf("%d tile kernels, want %d", found, want)
	}
}

// vectorBytes returns the bytes of the registers of a family of kernels.
func vectorBytes(family string) int {
	if strings.HasPrefix(family, "wide") {
		return 64
	}
	return 32
}

// An emulation is one run of a kernel.
type emulation struct {
	f                                   *function
	rows, more, cols, size, n, k, flags int
	rowA, stepA, rowB, rowC             int  // elements
	packs                               bool // the rows of B into a panel
	kind                                int  // of B
	a, b, c, bias, panel                []byte
}

// run lays operands of exactly the size that the kernel may touch out, and compares.
func (e *emulation) run(r *rand.Rand) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%v", v)
		}
	}()
	e.rowA, e.stepA = e.k+r.IntN(3), 1
	if r.IntN(2) == 0 {
		e.rowA, e.stepA = 1, e.height()+r.IntN(3)
	}
	e.rowB, e.rowC = e.cols+r.IntN(3), e.n+r.IntN(3)
	whole := func(n int) []byte {
		b := make([]byte, max(n, 0)*e.size)
		for i := 0; i < len(b); i += e.size {
			putFloat(b[i:], e.size, float64(r.IntN(9)-4))
		}
		return b
	}
	if e.k > 0 {
		e.a = whole((e.height()-1)*e.rowA + (e.k-1)*e.stepA + 1)
		e.b = whole((e.k-1)*e.rowB + e.cols)
	}
	stored, sizeB := e.store(r)
	e.c, e.bias = whole((e.height()-1)*e.rowC+e.n), whole(e.n)
	if r.IntN(4) == 0 {
		putFloat(e.bias, e.size, math.NaN())
	}
	if e.packs {
		e.panel = make([]byte, e.k*e.cols*e.size)
	}
	want := e.expect()
	e.machine(stored, sizeB).run(e.f)
	for i := 0; e.packs && i < e.k; i++ {
		if row := e.cols * e.size; !bytes.Equal(e.panel[i*row:][:row], e.b[i*e.rowB*e.size:][:row]) {
			return fmt.Errorf("row %d of the panel is not that of B", i)
		}
	}
	for i := 0; i < len(want); i += e.size {
		got, want := getFloat(e.c[i:], e.size), getFloat(want[i:], e.size)
		if got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			return fmt.Errorf("C at %d: got %v, want %v", i/e.size, got, want)
		}
	}
	return nil
}

// height returns the rows of all tiles.
func (e *emulation) height() int { return e.rows * (1 + e.more) }

// store returns B as it is stored, and the bytes of an element: e.b rounded is what it becomes.
func (e *emulation) store(r *rand.Rand) (b []byte, size int) {
	if e.kind == 0 {
		return e.b, e.size
	}
	to, size := arena.BFloat16, 4
	if e.kind%2 == 0 {
		to = arena.Float16
	}
	if e.kind > 2 {
		size = 2
	}
	for i := 0; i < len(e.b); i += 4 {
		v := math.Float32frombits(binary.LittleEndian.Uint32(e.b[i:]))
		if size == 2 {
			b = binary.LittleEndian.AppendUint16(b, toHalf(to, v))
		} else { // not halfway to the next, so that it is rounded to v
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v)+uint32(r.IntN(0xfff)))
		}
	}
	return b, size
}

func (e *emulation) machine(stored []byte, sizeB int) *machine {
	tile := make([]byte, 208)
	panel := 0
	if e.packs {
		panel = atPanel
	}
	for i, v := range map[int]int{0: atA, 24: atB, 48: atC, 72: atBias, 96: e.k, 104: e.rowA * e.size, 112: e.stepA * e.size,
		120: e.rowB * sizeB, 128: e.rowC * e.size, 136: e.n, 144: e.flags, 160: e.more, 176: panel, 200: e.kind} {
		binary.LittleEndian.PutUint64(tile[i:], uint64(v))
	}
	masks := make([]byte, 256)
	for i := range 128 {
		masks[i] = 0xff
	}
	return &machine{size: e.size, gp: map[string]uint64{}, memory: map[uint64][]byte{
		atTile: tile, atMasks: masks, atA: e.a, atB: stored, atC: e.c, atBias: e.bias, atPanel: e.panel,
		atRounding: roundingTable(0x7fff, 0x8000, 0xffff0000, 0x400000), atWideRounding: roundingTable(0x7fff, 1, 0xffff0000, 0x22)}}
}

// expect returns what C should hold afterwards.
func (e *emulation) expect() []byte {
	c := append([]byte(nil), e.c...)
	for i := range e.height() {
		for j := range e.n {
			sum := 0.0
			for k := range e.k {
				sum += getFloat(e.a[(i*e.rowA+k*e.stepA)*e.size:], e.size) * getFloat(e.b[(k*e.rowB+j)*e.size:], e.size)
			}
			at := c[(i*e.rowC+j)*e.size:]
			if e.flags&1 != 0 {
				sum += getFloat(at, e.size)
			}
			if e.flags&2 != 0 {
				sum += getFloat(e.bias[j*e.size:], e.size)
			}
			if e.flags&4 != 0 && sum < 0 {
				sum = 0
			}
			putFloat(at, e.size, sum)
		}
	}
	return c
}

// roundingTable is the constants of internal/gen/rounding.
func roundingTable(numbers ...uint32) []byte {
	var b []byte
	for _, n := range numbers {
		for range 8 {
			b = binary.LittleEndian.AppendUint32(b, n)
		}
	}
	return b
}

// toHalf returns the bits of v in a 16-bit type.
func toHalf(t arena.DType, v float32) uint16 {
	if t == arena.BFloat16 {
		return float16.ToBFloat16(v)
	}
	return float16.ToFloat16(v)
}

func TestTileFieldsLieWhereTheAssemblyReadsThem(t *testing.T) {
	got := asmtest.Offsets[gemm.Tile]()
	for name, want := range map[string]uintptr{"A": 0, "B": 24, "C": 48, "Bias": 72, "K": 96, "RowA": 104, "StepA": 112, "StepB": 120,
		"RowC": 128, "N": 136, "Flags": 144, "Rows": 152, "More": 160, "mxcsr": 168, "Panel": 176, "Kind": 200} { // internal/gen/gemm
		if got[name] != want {
			t.Errorf("Tile.%s lies at %d, the assembly reads %d", name, got[name], want)
		}
	}
}
