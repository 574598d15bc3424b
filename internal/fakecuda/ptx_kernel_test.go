package fakecuda_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Every module that kernels/cuda ships loads: the device knows all that it contains.
func TestShippedModulesLoad(t *testing.T) {
	files, err := filepath.Glob("../../kernels/cuda/*.ptx")
	if err != nil || len(files) == 0 {
		t.Fatal("no modules", err)
	}
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			// A module that loads has no kernel of this name: CUDA_ERROR_NOT_FOUND.
			if _, got := (launch{kernel: "none", text: string(text), grid: 1, block: 1}).run(t); !strings.HasPrefix(got, "fault 500 ") {
				t.Error(got)
			}
		})
	}
}

// mma.sync on small integers, which every type holds exactly, against the plain product. Fragments as in the PTX ISA 7.0,
// "Matrix Fragments for mma.m16n8k*".
func TestMatrixMultiply(t *testing.T) {
	cases := []struct {
		shape, kind string
		k, pack     int                  // pack: numbers in a register
		encode      func(float32) uint32 // of small integers
	}{
		{"m16n8k4", "tf32", 4, 1, bits},
		{"m16n8k8", "tf32", 8, 1, bits},
		{"m16n8k8", "bf16", 8, 2, func(f float32) uint32 { return bits(f) >> 16 }},
		{"m16n8k16", "bf16", 16, 2, func(f float32) uint32 { return bits(f) >> 16 }},
		{"m16n8k16", "f16", 16, 2, half},
	}
	for _, c := range cases {
		t.Run(c.shape+" "+c.kind, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			a, b := make([]float32, 16*c.k), make([]float32, c.k*8)
			for i := range a {
				a[i] = float32(rng.IntN(9) - 4)
			}
			for i := range b {
				b[i] = float32(rng.IntN(9) - 4)
			}
			perGroup := 4 * c.pack // of k, that one register of each of four lanes covers
			regs := 2 * c.k / perGroup
			var in []byte
			pack := func(at func(k int) float32, lane, part int) {
				var w uint32
				for h := range c.pack {
					w |= c.encode(at(part*perGroup+lane%4*c.pack+h)) << (16 * h)
				}
				in = binary.LittleEndian.AppendUint32(in, w)
			}
			for lane := range 32 {
				for q := range regs {
					pack(func(k int) float32 { return a[(lane/4+8*(q%2))*c.k+k] }, lane, q/2)
				}
				for q := range regs / 2 {
					pack(func(k int) float32 { return b[k*8+lane/4] }, lane, q)
				}
			}
			got := floats(launch{kernel: "k", text: mma(c.shape, c.kind, regs), grid: 1, block: 32, buffers: [][]byte{make([]byte, 32*16), in}}.must(t)[0])
			for lane := range 32 {
				for q := range 4 {
					row, col, want := lane/4+8*(q/2), lane%4*2+q%2, float32(1)
					for k := range c.k {
						want += a[row*c.k+k] * b[k*8+col]
					}
					if got[4*lane+q] != want {
						t.Fatalf("[%d, %d]: got %v, want %v", row, col, got[4*lane+q], want)
					}
				}
			}
		})
	}
}

// floats reads little-endian float32.
func floats(b []byte) []float32 {
	f := make([]float32, len(b)/4)
	for i := range f {
		f[i] = math.Float32frombits(word(b, i))
	}
	return f
}

// half encodes integers up to 16.
func half(f float32) uint32 {
	if f == 0 {
		return 0
	}
	m, e := math.Frexp(math.Abs(float64(f)))
	w := uint32(e+14)<<10 | uint32((2*m-1)*1024)
	if f < 0 {
		w |= 0x8000
	}
	return w
}

// mma is a kernel k(out, in) of one warp that multiplies and adds to ones; in has regs registers of A and half as many of B a lane.
func mma(shape, kind string, regs int) string {
	var load, list strings.Builder
	for r := range regs + regs/2 {
		fmt.Fprintf(&load, "ld.global.b32 %%r%d, [%%i+%d];\n", 10+r, 4*r)
	}
	join := func(from, n int) {
		var names []string
		for r := range n {
			names = append(names, fmt.Sprintf("%%r%d", from+r))
		}
		fmt.Fprintf(&list, "{%s}, ", strings.Join(names, ", "))
	}
	list.WriteString("{%f1, %f2, %f3, %f4}, ")
	join(10, regs)
	join(10+regs, regs/2)
	return fmt.Sprintf(`.version 7.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 k_0, .param .u64 k_1)
{
.reg .b32 %%r<40>;
.reg .f32 %%f<8>;
.reg .b64 %%o, %%i, %%d<4>;
ld.param.u64 %%o, [k_0];
ld.param.u64 %%i, [k_1];
mov.u32 %%r0, %%tid.x;
mul.wide.u32 %%d0, %%r0, %d;
add.s64 %%i, %%i, %%d0;
mul.wide.u32 %%d0, %%r0, 16;
add.s64 %%o, %%o, %%d0;
%s
mov.f32 %%f5, 0f3F800000;
mma.sync.aligned.%s.row.col.f32.%s.%s.f32 %s{%%f5, %%f5, %%f5, %%f5};
st.global.v4.f32 [%%o], {%%f1, %%f2, %%f3, %%f4};
ret;
}
`, 4*(regs+regs/2), load.String(), shape, kind, kind, list.String())
}

// What clang makes of CUDA C++: a call that is not inlined, a loop that diverges, a reduction through shuffles and shared memory.
const source = `
#define DEVICE __attribute__((device))
#include <__clang_cuda_builtin_vars.h>
DEVICE __attribute__((noinline)) float power(float x, int n) { float r = 1; for (int i = 0; i < n; i++) r *= x; return r; }
DEVICE float sum(float v) { for (int o = 16; o; o >>= 1) v += __nvvm_shfl_sync_bfly_f32(0xffffffffu, v, o, 31); return v; }
extern "C" __attribute__((global)) void k(float *out, const float *in, unsigned n) {
  __attribute__((shared)) static float part[8];
  unsigned t = threadIdx.x;
  float s = 0;
  for (unsigned i = t; i < n; i += blockDim.x) {
    unsigned long long v = i + 1;
    unsigned steps = 0;
    while (v != 1) { v = v & 1 ? 3 * v + 1 : v / 2; steps++; }
    s += steps + in[i] * power(2, i % 5);
  }
  s = sum(s);
  if (t % 32 == 0) part[t / 32] = s;
  __nvvm_bar_sync(0);
  s = sum(t < blockDim.x / 32 ? part[t] : 0);
  if (!t) out[0] = s;
}
`

func TestClangKernel(t *testing.T) {
	if _, err := exec.LookPath("clang-16"); err != nil {
		t.Skip("no clang-16: compiles the kernel of this test")
	}
	file := filepath.Join(t.TempDir(), "k.cu")
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	var ptx, messages bytes.Buffer
	cmd := exec.Command("clang-16", "-x", "cuda", "--cuda-device-only", "--cuda-gpu-arch=sm_70", "-nocudainc", "-nocudalib",
		"-Xclang", "-target-feature", "-Xclang", "+ptx70", "-O3", "-S", file, "-o", "-")
	cmd.Stdout, cmd.Stderr = &ptx, &messages
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, messages.String())
	}
	const n = 1000
	var in []byte
	want := float32(0)
	for i := range n {
		x := float32(i % 7)
		in = append(in, words(bits(x))...)
		steps := 0
		for v := i + 1; v != 1; steps++ {
			if v&1 == 1 {
				v = 3*v + 1
			} else {
				v /= 2
			}
		}
		want += float32(steps) + x*float32(int(1)<<(i%5)) // integers below 2^24: exact in any order
	}
	for _, options := range []string{"", "race 1;seed 1", "race 1;seed 2"} {
		l := launch{kernel: "k", text: ptx.String(), grid: 1, block: 256, buffers: [][]byte{make([]byte, 4), in}, args: []any{uint32(n)}, options: options}
		if got := floats(l.must(t)[0])[0]; got != want {
			t.Errorf("options %q: got %v, want %v", options, got, want)
		}
	}
}
