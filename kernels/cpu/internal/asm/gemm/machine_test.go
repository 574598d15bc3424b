package gemm_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/internal/float16"
)

// An inst is one line of assembly.
type inst struct {
	op   string
	args []string
}

// A function is the code of one kernel.
type function struct {
	code   []inst
	labels map[string]int
}

// parseAssembly returns the functions of a file by name.
func parseAssembly(t *testing.T, file string) map[string]*function {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*function{}
	var f *function
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), "//")
		switch {
		case strings.HasPrefix(line, "TEXT"):
			name := strings.TrimPrefix(strings.Split(line, "(SB)")[0], "TEXT ·")
			f = &function{labels: map[string]int{}}
			all[name] = f
		case f == nil || line == "":
		case strings.HasSuffix(line, ":"):
			f.labels[strings.TrimSuffix(line, ":")] = len(f.code)
		default:
			op, rest, _ := strings.Cut(line, " ")
			in := inst{op: op}
			for a := range strings.SplitSeq(rest, ",") {
				if a = strings.TrimSpace(a); a != "" {
					in.args = append(in.args, a)
				}
			}
			f.code = append(f.code, in)
		}
	}
	return all
}

// A machine interprets one kernel on float32 (size 4) or float64 (size 8).
type machine struct {
	size   int
	gp     map[string]uint64
	vec    [32][64]byte
	mask   [8]uint64
	mxcsr  uint32
	result int64             // of the last instruction that sets flags
	memory map[uint64][]byte // by address
}

// at returns n bytes of memory, all of one operand.
func (m *machine) at(addr uint64, n int) []byte {
	for base, b := range m.memory {
		if addr >= base && addr+uint64(n) <= base+uint64(len(b)) {
			return b[addr-base:][:n]
		}
	}
	panic(fmt.Sprintf("%d bytes at %#x are no operand's", n, addr))
}

var memoryForm = regexp.MustCompile(`^(-?\d+)?\((\w+)\)(?:\((\w+)\*(\d)\))?$`)

func (m *machine) address(arg string) uint64 {
	if off, ok := strings.CutPrefix(arg, "masks<>+"); ok {
		n, _ := strconv.Atoi(strings.TrimSuffix(off, "(SB)"))
		return atMasks + uint64(n)
	}
	for name, at := range map[string]uint64{"rounding<>+": atRounding, "wideRounding<>+": atWideRounding} {
		if off, ok := strings.CutPrefix(arg, name); ok {
			n, _ := strconv.Atoi(strings.TrimSuffix(off, "(SB)"))
			return at + uint64(n)
		}
	}
	p := memoryForm.FindStringSubmatch(arg)
	disp, _ := strconv.Atoi(p[1])
	addr := m.reg(p[2]) + uint64(disp)
	if p[3] != "" {
		scale, _ := strconv.Atoi(p[4])
		addr += m.reg(p[3]) * uint64(scale)
	}
	return addr
}

func (m *machine) reg(name string) uint64 {
	v, ok := m.gp[name]
	if !ok {
		panic("register " + name + " is read before it is set")
	}
	return v
}

// value is a 64-bit operand.
func (m *machine) value(arg string) uint64 {
	switch {
	case arg == "t+0(FP)":
		return atTile
	case arg[0] == '$':
		n, err := strconv.ParseInt(arg[1:], 0, 64)
		if err != nil {
			panic(err)
		}
		return uint64(n)
	case strings.Contains(arg, "("):
		return binary.LittleEndian.Uint64(m.at(m.address(arg), 8))
	}
	return m.reg(arg)
}

func number(arg string) int {
	n, _ := strconv.Atoi(arg[1:])
	return n
}

// isVector reports whether arg is a vector register, and its bytes.
func isVector(arg string) (int, bool) {
	switch arg[0] {
	case 'Z':
		return 64, true
	case 'Y':
		return 32, true
	case 'X':
		return 16, true
	}
	return 0, false
}

// lanes returns the float in each lane of arg, a register or memory of so many bytes.
func (m *machine) lanes(arg string, bytes int) []float64 {
	var b []byte
	if _, ok := isVector(arg); ok {
		b = m.vec[number(arg)][:bytes]
	} else {
		b = m.at(m.address(arg), bytes)
	}
	v := make([]float64, bytes/m.size)
	for i := range v {
		v[i] = getFloat(b[i*m.size:], m.size)
	}
	return v
}

func getFloat(b []byte, size int) float64 {
	if size == 4 {
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(b))
}

func putFloat(b []byte, size int, v float64) {
	if size == 4 {
		binary.LittleEndian.PutUint32(b, math.Float32bits(float32(v)))
	} else {
		binary.LittleEndian.PutUint64(b, math.Float64bits(v))
	}
}

// set writes a vector register; what is above it becomes 0.
func (m *machine) set(arg string, v []float64) {
	r := &m.vec[number(arg)]
	*r = [64]byte{}
	for i, x := range v {
		putFloat(r[i*m.size:], m.size, x)
	}
}

// move copies the lanes for which on is true; without it, a lane of a register becomes 0 and one of
// memory stays.
func (m *machine) move(from, to string, bytes int, on func(lane int) bool) {
	_, toReg := isVector(to)
	var out [64]byte
	for i := 0; i < bytes; i += m.size {
		if !on(i / m.size) {
			continue
		}
		var src []byte
		if _, ok := isVector(from); ok {
			src = m.vec[number(from)][i : i+m.size]
		} else {
			src = m.at(m.address(from)+uint64(i), m.size)
		}
		if toReg {
			copy(out[i:], src)
		} else {
			copy(m.at(m.address(to)+uint64(i), m.size), src)
		}
	}
	if toReg {
		m.vec[number(to)] = out
	}
}

// mxcsr is the control register of a new thread: no exception traps.
const mxcsr = 0x1f80

// run executes f to its end.
func (m *machine) run(f *function) {
	m.mxcsr = mxcsr
	for pc, steps := 0, 0; ; steps++ {
		in := f.code[pc]
		pc++
		switch in.op {
		case "RET":
			if m.mxcsr != mxcsr {
				panic("MXCSR is not what it was")
			}
			return
		case "VZEROUPPER", "PREFETCHT0": // change nothing that is looked at
		case "JMP":
			pc = f.labels[in.args[0]]
		case "JL", "JLE", "JGE", "JE", "JNE":
			r := m.result
			if map[string]bool{"JL": r < 0, "JLE": r <= 0, "JGE": r >= 0, "JE": r == 0, "JNE": r != 0}[in.op] {
				pc = f.labels[in.args[0]]
			}
		default:
			if in.op[0] == 'V' {
				if m.mxcsr == mxcsr && strings.Contains(in.op, "FMADD") {
					panic("denormal numbers are not flushed")
				}
				m.vector(in)
			} else {
				m.integer(in)
			}
		}
		if steps > 100_000 {
			panic("does not end")
		}
	}
}

func (m *machine) integer(in inst) {
	a := in.args
	last := a[len(a)-1]
	switch in.op {
	case "MOVQ":
		m.gp[last] = m.value(a[0])
	case "IMUL3Q":
		m.gp[last] = m.value(a[0]) * m.value(a[1])
	case "MOVL":
		if !strings.Contains(last, "(") {
			m.gp[last] = uint64(binary.LittleEndian.Uint32(m.at(m.address(a[0]), 4)))
		} else {
			binary.LittleEndian.PutUint32(m.at(m.address(last), 4), uint32(m.reg(a[0])))
		}
	case "ORL":
		m.gp[last] = m.reg(last) | m.value(a[0])
	case "STMXCSR":
		binary.LittleEndian.PutUint32(m.at(m.address(last), 4), m.mxcsr)
	case "LDMXCSR":
		m.mxcsr = binary.LittleEndian.Uint32(m.at(m.address(last), 4))
	case "LEAQ":
		m.gp[last] = m.address(a[0])
	case "ADDQ", "SUBQ", "DECQ":
		n := uint64(1)
		if len(a) == 2 {
			n = m.value(a[0])
		}
		if in.op != "ADDQ" {
			n = -n
		}
		n += m.value(last)
		m.result = int64(n)
		if strings.Contains(last, "(") {
			binary.LittleEndian.PutUint64(m.at(m.address(last), 8), n)
		} else {
			m.gp[last] = n
		}
	case "SHRQ":
		m.gp[last] = m.reg(last) >> m.value(a[0])
	case "SHLQ":
		m.gp[last] = m.reg(last) << m.value(a[0])
	case "CMPQ":
		m.result = int64(m.value(a[0]) - m.value(a[1]))
	case "TESTQ":
		m.result = int64(m.value(a[0]) & m.value(a[1]))
	case "BZHIQ":
		m.gp[last] = m.value(a[1]) & (1<<m.value(a[0]) - 1)
	case "KMOVW":
		m.mask[number(last)] = m.value(a[0]) & 0xffff
	default:
		panic("unknown instruction " + in.op)
	}
}

func (m *machine) vector(in inst) {
	a := in.args
	last := a[len(a)-1]
	bytes, _ := isVector(last)
	all := func(int) bool { return true }
	op, suffix, _ := strings.Cut(in.op, ".")
	switch op {
	case "VXORPS", "VPXORD":
		if a[0] != a[1] {
			panic("not a way to clear a register")
		}
		m.set(last, nil)
	case "VMOVUPS", "VMOVUPD":
		on := all
		if len(a) == 3 {
			on = func(i int) bool { return m.mask[number(a[1])]>>i&1 != 0 }
			if _, ok := isVector(last); ok && suffix != "Z" {
				panic("merges")
			}
		}
		if bytes == 0 {
			bytes, _ = isVector(a[0])
		}
		m.move(a[0], last, bytes, on)
	case "VMASKMOVPS", "VMASKMOVPD":
		mask := m.vec[number(a[1])]
		m.move(a[0], last, 32, func(i int) bool { return mask[(i+1)*m.size-1]&0x80 != 0 })
	case "VBROADCASTSS", "VBROADCASTSD":
		m.broadcast(a[0], last, bytes)
	case "VPSRLD", "VPSLLD", "VPADDD", "VPAND", "VPANDD", "VPOR", "VPTERNLOGD", "VFIXUPIMMPS", "VCMPPS", "VBLENDVPS", "VPMOVZXWD", "VCVTPH2PS", "VCVTPS2PH":
		m.round(op, suffix, a, bytes)
	default:
		m.arithmetic(strings.TrimRight(op, "SD"), suffix, a, bytes)
	}
}

func (m *machine) broadcast(from, to string, bytes int) {
	v := make([]float64, bytes/m.size)
	for i := range v {
		v[i] = getFloat(m.at(m.address(from), m.size), m.size)
	}
	m.set(to, v)
}

// words returns n elements of size bytes of arg, a register or memory, or of the one that is
// broadcast from there.
func (m *machine) words(arg string, n, size int, broadcast bool) []uint32 {
	var b []byte
	switch _, register := isVector(arg); {
	case register:
		b = m.vec[number(arg)][:n*size]
	case broadcast:
		b = bytes.Repeat(m.at(m.address(arg), size), n)
	default:
		b = m.at(m.address(arg), n*size)
	}
	v := make([]uint32, n)
	for i := range v {
		if size == 2 {
			v[i] = uint32(binary.LittleEndian.Uint16(b[2*i:]))
		} else {
			v[i] = binary.LittleEndian.Uint32(b[4*i:])
		}
	}
	return v
}

// round executes the instructions that round float32, on so many bytes.
func (m *machine) round(op, suffix string, a []string, size int) {
	last := a[len(a)-1]
	n, from := size/4, 4
	switch op {
	case "VPMOVZXWD", "VCVTPH2PS":
		from = 2
	case "VCVTPS2PH":
		n, _ = isVector(a[1])
		n /= 4
	}
	var x [3][]uint32
	operands := a[:len(a)-1]
	if operands[0][0] == '$' {
		operands = operands[1:]
	}
	for i, arg := range operands {
		x[i] = m.words(arg, n, from, i == 0 && suffix == "BCST")
	}
	isNaN := func(v uint32) bool { return v&0x7fffffff > 0x7f800000 }
	out, old := make([]uint32, n), m.words(last, min(n, 16), 4, false)
	for i := range out {
		v := x[0][i]
		switch op {
		case "VPSRLD":
			out[i] = v >> m.value(a[0])
		case "VPSLLD":
			out[i] = v << m.value(a[0])
		case "VPADDD":
			out[i] = v + x[1][i]
		case "VPAND", "VPANDD":
			out[i] = v & x[1][i]
		case "VPOR":
			out[i] = v | x[1][i]
		case "VPTERNLOGD":
			for bit := range 32 {
				out[i] |= uint32(m.value(a[0])>>(old[i]>>bit&1<<2|x[1][i]>>bit&1<<1|v>>bit&1)&1) << bit
			}
		case "VFIXUPIMMPS":
			if out[i] = old[i]; v != 0x22 {
				panic("not a table that replaces NaNs")
			}
			if isNaN(x[1][i]) {
				out[i] = x[1][i] | 0x400000
			}
		case "VCMPPS":
			if isNaN(v) || isNaN(x[1][i]) { // unordered
				out[i] = math.MaxUint32
			}
		case "VBLENDVPS":
			if out[i] = x[2][i]; v>>31 != 0 {
				out[i] = x[1][i]
			}
		case "VPMOVZXWD":
			out[i] = v
		case "VCVTPH2PS":
			out[i] = math.Float32bits(float16.FromFloat16(uint16(v)))
		case "VCVTPS2PH":
			out[i] = uint32(float16.ToFloat16(math.Float32frombits(v)))
		}
	}
	r := &m.vec[number(last)]
	*r = [64]byte{}
	for i, v := range out {
		if op == "VCVTPS2PH" {
			binary.LittleEndian.PutUint16(r[2*i:], uint16(v))
		} else {
			binary.LittleEndian.PutUint32(r[4*i:], v)
		}
	}
}

func (m *machine) arithmetic(op, suffix string, a []string, bytes int) {
	var x []float64
	if suffix == "BCST" {
		for range bytes / m.size {
			x = append(x, getFloat(m.at(m.address(a[0]), m.size), m.size))
		}
	} else {
		x = m.lanes(a[0], bytes)
	}
	y, sum := m.lanes(a[1], bytes), m.lanes(a[2], bytes)
	for i := range sum {
		switch op {
		case "VFMADD231P":
			sum[i] += x[i] * y[i] // exact: the test's numbers are small and whole
		case "VADDP":
			sum[i] = x[i] + y[i]
		case "VMAXP":
			sum[i] = x[i]
			if y[i] > x[i] {
				sum[i] = y[i]
			}
		default:
			panic("unknown instruction " + op)
		}
	}
	m.set(a[2], sum)
}
