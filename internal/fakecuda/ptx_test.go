package fakecuda_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// runner builds testdata/ptx_runner.cpp with the PTX half once for one version of the sources, and returns its path.
var runner = sync.OnceValues(func() (string, error) {
	sources, err := filepath.Glob("ptx_*.cpp")
	if err != nil {
		return "", err
	}
	sources = append(sources, filepath.Join("testdata", "ptx_runner.cpp"))
	hash := sha256.New()
	for _, s := range append([]string{"ptx.hpp", "ptx_code.hpp"}, sources...) {
		text, err := os.ReadFile(s)
		if err != nil {
			return "", err
		}
		hash.Write(text)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "evenkeel", fmt.Sprintf("ptx-%x", hash.Sum(nil)[:8]))
	bin := filepath.Join(dir, "ptx_runner")
	if _, err := os.Stat(bin); err == nil {
		return bin, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	objects := make([]string, len(sources))
	errs := make([]error, len(sources))
	slots := make(chan struct{}, runtime.NumCPU())
	var wait sync.WaitGroup
	for i, s := range sources {
		objects[i] = filepath.Join(dir, fmt.Sprintf("%d-%d.o", os.Getpid(), i))
		wait.Add(1)
		go func() {
			defer wait.Done()
			slots <- struct{}{}
			defer func() { <-slots }()
			errs[i] = gxx("-std=c++17", "-O2", "-march=native", "-ffp-contract=off", "-fno-strict-aliasing", "-Wall", "-Wextra", "-c", s, "-o", objects[i])
		}()
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return "", err
		}
	}
	temp := fmt.Sprintf("%s.%d", bin, os.Getpid())
	if err := gxx(append(objects, "-lpthread", "-o", temp)...); err != nil {
		return "", err
	}
	return bin, os.Rename(temp, bin)
})

func gxx(args ...string) error {
	if out, err := exec.Command("g++", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("g++ %v: %w\n%s", args, err, out)
	}
	return nil
}

// launch is one run of one kernel. Buffers become the first parameters, args follow (uint32, uint64 or float32).
type launch struct {
	kernel      string
	text        string
	grid, block int
	dynamic     int // bytes
	buffers     [][]byte
	args        []any
	options     string // "race 1;seed 3"
}

// run returns the buffers after the launch and the rest of the output, or the fault.
func (l launch) run(t *testing.T) (buffers [][]byte, rest string) {
	t.Helper()
	if _, err := exec.LookPath("g++"); err != nil {
		t.Skip("no g++: the emulated device is C++")
	}
	bin, err := runner()
	if err != nil {
		t.Fatal(err)
	}
	var in bytes.Buffer
	for i, b := range l.buffers {
		fmt.Fprintf(&in, "buffer %x\narg buffer %d\n", b, i)
	}
	for _, a := range l.args {
		switch a := a.(type) {
		case uint32:
			fmt.Fprintf(&in, "arg 4 %x\n", a)
		case uint64:
			fmt.Fprintf(&in, "arg 8 %x\n", a)
		case float32:
			fmt.Fprintf(&in, "arg 4 %x\n", math.Float32bits(a))
		default:
			t.Fatalf("argument of type %T", a)
		}
	}
	for _, o := range strings.Split(l.options, ";") {
		if o != "" {
			fmt.Fprintf(&in, "option %s\n", o)
		}
	}
	fmt.Fprintf(&in, "launch %s %d 1 1 %d 1 1 %d\n%s", l.kernel, l.grid, l.block, l.dynamic, l.text)
	cmd := exec.Command(bin)
	cmd.Stdin = &in
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		if text, ok := strings.CutPrefix(line, "buffer "); ok {
			b, err := hex.DecodeString(text)
			if err != nil {
				t.Fatal(err)
			}
			buffers = append(buffers, b)
			continue
		}
		rest += line + "\n"
	}
	return buffers, rest
}

func (l launch) must(t *testing.T) [][]byte {
	t.Helper()
	b, rest := l.run(t)
	if strings.HasPrefix(rest, "fault") {
		t.Fatal(rest)
	}
	return b
}

func words(w ...uint32) []byte {
	var b []byte
	for _, v := range w {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return b
}

func word(b []byte, i int) uint32 { return binary.LittleEndian.Uint32(b[4*i:]) }

// ptx wraps statements into kernel k(out, in): %o and %i point to 4 bytes a thread of each, %r0 and %f0 hold in's, %r9 the thread.
// The statements leave their result in %r1.
func ptx(body string) string {
	return `.version 7.0
.target sm_80
.address_size 64
.extern .shared .align 16 .b8 dyn[];
.visible .entry k(.param .u64 k_0, .param .u64 k_1)
{
.reg .pred %p<8>;
.reg .b16 %h<8>;
.reg .b32 %r<40>;
.reg .f32 %f<16>;
.reg .b64 %d<16>;
.reg .f64 %e<8>;
.reg .b64 %o, %i;
.shared .align 4 .b8 sh[256];
ld.param.u64 %o, [k_0];
ld.param.u64 %i, [k_1];
mov.u32 %r9, %tid.x;
mul.wide.u32 %d0, %r9, 4;
add.s64 %o, %o, %d0;
add.s64 %i, %i, %d0;
ld.global.u32 %r0, [%i];
mov.b32 %f0, %r0;
` + body + `
st.global.u32 [%o], %r1;
ret;
}
`
}

func bits(f float32) uint32 { return math.Float32bits(f) }

func TestInstructions(t *testing.T) {
	const least = 1 // the bits of the least float32 above zero
	third := bits(1.0 / 3)
	cases := []struct {
		name, body string
		in, want   uint32
	}{
		{"mad.lo wraps", "mad.lo.s32 %r1, %r0, %r0, 7;", 0xffffffff, 8},
		{"carry out of an addition", "add.cc.u32 %r2, %r0, 1; addc.u32 %r1, 5, 0;", 0xffffffff, 6},
		{"no carry", "add.cc.u32 %r2, %r0, 1; addc.u32 %r1, 5, 0;", 0xfffffffe, 5},
		{"a carry from a carry", "add.cc.u32 %r2, %r0, 1; addc.cc.u32 %r2, -1, 0; addc.u32 %r1, 5, 0;", 0xffffffff, 6},
		{"a carry into ones twice", "add.cc.u32 %r2, %r0, 1; addc.cc.u32 %r2, -1, -1; addc.u32 %r1, %r2, 0;", 0xffffffff, 0},
		{"addc alone keeps the carry", "add.cc.u32 %r2, %r0, 1; addc.u32 %r2, 0, 0; addc.u32 %r1, %r2, 0;", 0xffffffff, 2},
		{"borrow", "sub.cc.u32 %r2, %r0, 4; subc.u32 %r1, 9, 0;", 3, 8},
		{"no borrow", "sub.cc.u32 %r2, %r0, 4; subc.u32 %r1, 9, 0;", 4, 9},
		{"a borrow from a borrow", "sub.cc.u32 %r2, %r0, 4; subc.cc.u32 %r2, 0, 0; subc.u32 %r1, 9, 0;", 3, 8},
		{"mul.hi signed", "mul.hi.s32 %r1, %r0, 2;", 0xffffffff, 0xffffffff},
		{"mul.hi unsigned", "mul.hi.u32 %r1, %r0, 2;", 0xffffffff, 1},
		{"division of the least", "div.s32 %r1, %r0, -1;", 0x80000000, 0x80000000},
		{"rem signed", "rem.s32 %r1, %r0, 4;", 0xfffffffb, 0xffffffff},
		{"shift by 32", "mov.u32 %r2, 32; shl.b32 %r1, %r0, %r2;", 5, 0},
		{"arithmetic shift by 40", "shr.s32 %r1, %r0, 40;", 0x80000000, 0xffffffff},
		{"funnel", "shf.l.wrap.b32 %r1, %r0, 1, 4;", 0xf0000000, 0x1f},
		{"prmt", "prmt.b32 %r1, %r0, 0, 291;", 0x11223344, 0x44332211},
		{"prmt sign", "prmt.b32 %r1, %r0, 0, 43707;", 0x80112233, 0x0000ffff},
		{"bfe signed", "bfe.s32 %r1, %r0, 4, 4;", 0x80, 0xfffffff8},
		{"bfi", "bfi.b32 %r1, %r0, 0, 8, 4;", 0xff, 0xf00},
		{"lop3", "lop3.b32 %r1, %r0, 12, 10, 150;", 6, 0},
		{"clz", "clz.b32 %r1, %r0;", 1, 31},
		{"brev", "brev.b32 %r1, %r0;", 1, 0x80000000},
		{"popc", "popc.b32 %r1, %r0;", 0xf0f0, 8},
		{"dp4a", "dp4a.s32.s32 %r1, %r0, 16909060, 1;", 0xff020304, 29},
		{"add rounds to even", "add.f32 %f1, %f0, 0f33800000; mov.b32 %r1, %f1;", bits(1), bits(1)},
		{"add up", "add.rp.f32 %f1, %f0, 0f33800000; mov.b32 %r1, %f1;", bits(1), bits(1) + 1},
		{"add to zero", "add.rz.f32 %f1, %f0, 0fB3000000; mov.b32 %r1, %f1;", bits(1), bits(1) - 1},
		{"div down", "div.rm.f32 %f1, %f0, 0f40400000; mov.b32 %r1, %f1;", bits(1), third - 1},
		{"div nearest", "div.rn.f32 %f1, %f0, 0f40400000; mov.b32 %r1, %f1;", bits(1), third},
		{"fma rounds once", "fma.rn.f32 %f1, %f0, %f0, 0fBF800000; mov.b32 %r1, %f1;", bits(1) + 1, bits(0x1p-22 + 0x1p-46)},
		{"mul and add round twice", "mul.rn.f32 %f1, %f0, %f0; add.rn.f32 %f1, %f1, 0fBF800000; mov.b32 %r1, %f1;", bits(1) + 1, bits(0x1p-22)},
		{"subnormals are kept", "mul.f32 %f1, %f0, 0f3F800000; mov.b32 %r1, %f1;", least, least},
		{"ftz", "mul.ftz.f32 %f1, %f0, 0f3F800000; mov.b32 %r1, %f1;", least, 0},
		{"sat", "add.sat.f32 %f1, %f0, 0f3F800000; mov.b32 %r1, %f1;", bits(3), bits(1)},
		{"min of no number", "min.f32 %f1, %f0, 0f40000000; mov.b32 %r1, %f1;", 0x7fc00001, bits(2)},
		{"min.NaN of no number", "min.NaN.f32 %f1, %f0, 0f40000000; mov.b32 %r1, %f1;", 0x7fc00001, 0x7fffffff},
		{"max.NaN of numbers", "max.NaN.f32 %f1, %f0, 0f40000000; mov.b32 %r1, %f1;", bits(1), bits(2)},
		{"max of zeros", "max.f32 %f1, %f0, 0f00000000; mov.b32 %r1, %f1;", 0x80000000, 0},
		{"no number has one form", "add.f32 %f1, %f0, %f0; mov.b32 %r1, %f1;", 0xffc12345, 0x7fffffff},
		{"ex2", "ex2.approx.f32 %f1, %f0; mov.b32 %r1, %f1;", bits(-3), bits(0.125)},
		{"sqrt", "sqrt.rn.f32 %f1, %f0; mov.b32 %r1, %f1;", bits(2), bits(float32(math.Sqrt2))},
		{"cvt to int saturates", "cvt.rzi.s32.f32 %r1, %f0;", bits(3e9), 0x7fffffff},
		{"cvt to unsigned saturates", "cvt.rzi.u32.f32 %r1, %f0;", bits(-5), 0},
		{"cvt nearest even", "cvt.rni.s32.f32 %r1, %f0;", bits(2.5), 2},
		{"cvt of no number", "cvt.rzi.s32.f32 %r1, %f0;", 0x7fffffff, 0},
		{"cvt sat of bytes", "cvt.sat.s8.s32 %r1, %r0;", 300, 127},
		{"cvt sign", "cvt.s32.s8 %r1, %r0;", 0x80, 0xffffff80},
		{"cvt int to float up", "cvt.rp.f32.s32 %f1, %r0; mov.b32 %r1, %f1;", 1<<24 + 1, bits(1<<24 + 2)},
		{"half", "cvt.rn.f16.f32 %h1, %f0; cvt.u32.u16 %r1, %h1;", bits(65519), 0x7bff},
		{"half infinity", "cvt.rn.f16.f32 %h1, %f0; cvt.u32.u16 %r1, %h1;", bits(65520), 0x7c00},
		{"half subnormal", "cvt.rn.f16.f32 %h1, %f0; cvt.u32.u16 %r1, %h1;", bits(0x1p-24), 1},
		{"from half", "cvt.u16.u32 %h1, %r0; cvt.f32.f16 %f1, %h1; mov.b32 %r1, %f1;", 0xc000, bits(-2)},
		{"tf32 away", "cvt.rna.tf32.f32 %r1, %f0;", bits(1) + 0x1000, bits(1) + 0x2000},
		{"pair of bfloats", "cvt.rn.bf16x2.f32 %r1, %f0, 0f3F800000;", bits(2), 0x40003f80},
		{"wide", "mul.wide.s32 %d1, %r0, %r0; shr.u64 %d1, %d1, 32; cvt.u32.u64 %r1, %d1;", 1 << 20, 256},
		{"pack", "mov.b64 %d1, {%r0, 7}; mov.b64 {%r2, %r1}, %d1;", 5, 7},
		{"predicates", "setp.gt.u32 %p1|%p2, %r0, 3; setp.lt.or.s32 %p3, %r0, 0, %p2; selp.b32 %r1, 1, 2, %p3;", 5, 2},
		{"unordered", "setp.ltu.f32 %p1, %f0, 0f00000000; selp.b32 %r1, 1, 2, %p1;", 0x7fc00000, 1},
		{"guard", "mov.u32 %r1, 1; setp.eq.u32 %p1, %r0, 9; @!%p1 mov.u32 %r1, 2;", 9, 1},
		{"divergent loop", "mov.u32 %r1, 0; L: add.u32 %r1, %r1, 1; setp.le.u32 %p1, %r1, %r9; @%p1 bra L; add.u32 %r1, %r1, %r0;", 10, 11},
		{"local memory", ".local .align 8 .b8 l[16]; mov.u64 %d1, l; cvta.local.u64 %d1, %d1; st.u32 [%d1+4], %r0; ld.local.u32 %r1, [l+4];", 42, 42},
		{"shuffle", "shfl.sync.down.b32 %r2|%p1, %r9, 1, 31, -1; selp.b32 %r1, %r2, 99, %p1;", 0, 1},
		{"butterfly", "shfl.sync.bfly.b32 %r1, %r9, 16, 31, -1;", 0, 16},
		{"ballot", "setp.lt.u32 %p1, %r9, 4; vote.sync.ballot.b32 %r1, %p1, -1;", 0, 15},
		{"match", "and.b32 %r2, %r9, 1; match.any.sync.b32 %r1, %r2, -1;", 0, 0x55555555},
		{"barrier", "mov.u32 %r3, sh; shl.b32 %r4, %r9, 2; add.u32 %r4, %r4, %r3; st.shared.u32 [%r4], %r9; bar.sync 0; ld.shared.u32 %r1, [sh+252];", 0, 63},
		{"dynamic shared", "mov.u64 %d1, dyn; cvta.shared.u64 %d1, %d1; mul.wide.u32 %d2, %r9, 4; add.s64 %d1, %d1, %d2; st.u32 [%d1], %r0; ld.u32 %r1, [%d1];", 17, 17},
		{"shared atomics", "setp.ne.u32 %p1, %r9, 0; @!%p1 st.shared.u32 [sh], 0; bar.sync 0; atom.shared.add.u32 %r2, [sh], 2; bar.sync 0; ld.shared.u32 %r1, [sh];", 0, 128},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			in := bytes.Repeat(words(c.in), 64)
			l := launch{kernel: "k", text: ptx(c.body), grid: 1, block: 64, dynamic: 256, buffers: [][]byte{make([]byte, 256), in}, options: "race 1"}
			if got := word(l.must(t)[0], 0); got != c.want {
				t.Errorf("%s: got %#x, want %#x", c.body, got, c.want)
			}
		})
	}
}

func TestFaults(t *testing.T) {
	cases := []struct{ name, body, options, want string }{
		{"out of bounds", "ld.global.u32 %r1, [%i+4];", "", "fault 700 illegal read of 4 bytes at 0x7f0100000100, 4 bytes past the end of the 256-byte allocation at 0x7f0100000000: kernel k, block (0,0,0), thread (63,0,0)"},
		{"before", "ld.global.u32 %r1, [%i+-8];", "", "8 bytes before"},
		{"misaligned", "ld.global.u32 %r1, [%i+2];", "", "fault 716"},
		{"shared", "ld.shared.u32 %r1, [sh+4096];", "", "fault 700 shared memory: read of 4 bytes at 4096 of 256"},
		{"local", ".local .b8 l[16]; ld.local.u32 %r1, [l+16];", "", "fault 700 local memory"},
		{"race", "st.shared.u32 [sh], %r9; mov.u32 %r1, 0;", "race 1", "fault 719 race in shared memory: write of byte 0 after the write of thread 0"},
		{"read without a barrier", "mov.u32 %r3, sh; shl.b32 %r4, %r9, 2; add.u32 %r4, %r4, %r3; st.shared.u32 [%r4], %r9; ld.shared.u32 %r1, [sh];", "race 1", "race in shared memory"},
		{"endless", "L: bra L; mov.u32 %r1, 0;", "limit 1000", "fault 702"},
		{"half a warp at a barrier", "mov.u32 %r1, 0; setp.lt.u32 %p1, %r9, 7; @%p1 bar.sync 0;", "", "fault 719 bar.sync is reached by a part of the warp"},
		{"a warp misses a barrier", "mov.u32 %r1, 0; setp.lt.u32 %p1, %r9, 32; @%p1 bar.sync 0; bar.sync 1;", "", "fault 702"},
		{"diverged shuffle", "mov.u32 %r1, 0; setp.lt.u32 %p1, %r9, 7; @%p1 shfl.sync.idx.b32 %r1, %r9, 0, 31, -1;", "", "fault 719 lane 7 of the member mask is not here"},
		{"trap", "mov.u32 %r1, 0; setp.eq.u32 %p1, %r9, 33; @%p1 trap;", "", "thread (33,0,0)"},
		{"unknown instruction", "frob.u32 %r1, %r0;", "", "line 23: frob.u32 %r1, %r0: unknown instruction frob"},
		{"unknown modifier", "xor.cc.b32 %r1, %r0, 1;", "", "unknown modifier .cc"},
		{"unknown register", "add.u32 %r1, %r40, 1;", "", "unknown register %r40"},
		{"wrong width", "add.u32 %r1, %d1, 1;", "", "register %d1 has 64 bits"},
		{"rounding is missing", "cvt.s32.f32 %r1, %f0;", "", "rounding is missing"},
		{"all at once", "frob %r1; mov.u32 %r1, 0; frab %r1;", "", "frab"},
		{"unknown label", "mov.u32 %r1, 0; bra M;", "", "unknown label M"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			l := launch{kernel: "k", text: ptx(c.body), grid: 1, block: 64, buffers: [][]byte{make([]byte, 256), make([]byte, 256)}, options: c.options}
			if _, got := l.run(t); !strings.HasPrefix(got, "fault") || !strings.Contains(got, c.want) {
				t.Errorf("%s: got %q, want %q", c.body, got, c.want)
			}
		})
	}
}
