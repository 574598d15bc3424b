//go:build gpu && cgo

package cuda

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/fakecuda"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/kerneltest"
)

func TestProductsByCuBLASAgreeWithTheirReference(t *testing.T) {
	for name, o := range modes {
		o.CuBLAS = true
		t.Run(name, func(t *testing.T) {
			opened(t, o) // or it skips
			before := len(fakecuda.Reports())
			kerneltest.Operations(t, func() (kernels.Device, error) { return Open(o) }, kernels.MatMul)
			if r := fakecuda.Reports()[before:]; len(r) > 0 {
				t.Errorf("the driver complains: %v", r)
			}
		})
	}
}

// Factors that a precision holds give products that it computes exactly; others must show that it
// was asked for, where the library does not choose for itself, as NVIDIA's may.
func TestCuBLASIsAskedForThePrecision(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 9))
	for x, bits := range map[Precision]uint{Full: 24, TF32: 11, BFloat16: 8, Float16: 11} {
		t.Run(x.String(), func(t *testing.T) {
			d := opened(t, Options{Products: x, CuBLAS: true})
			off := func(bits uint) float64 {
				in := []kernels.Tensor{normals(r, bits, 40, 33), normals(r, bits, 33, 20)}
				got, _ := ran(t, d, kernels.MatMul, kernels.MatMulAttrs{}, in)
				want := kernels.Tensor{Spec: got.Spec, Data: make([]float64, len(got.Data))}
				kernels.MatMul.Ref(kernels.MatMulAttrs{}, in, []kernels.Tensor{want})
				worst := 0.0
				for i, w := range want.Data {
					worst = max(worst, math.Abs(got.Data[i]-w))
				}
				return worst
			}
			// Sums of 33 products near 1, each rounded by half of 2^-23 of partial sums up to about
			// 4 √33.
			tolerance := 33 * 4 * math.Sqrt(33) * 0x1p-24
			if e := off(bits); e > tolerance {
				t.Errorf("factors of %d bits: off by %g, more than %g", bits, e, tolerance)
			}
			if e := off(24); fakecuda.Loaded() && x != Full && e < 0x1p-12 {
				t.Errorf("factors of 24 bits: off by %g: they were not rounded to %v", e, x)
			}
		})
	}
}

// A product takes the workspace that was planned for it, and cuBLAS no memory of its own after the
// first one, for which it loads kernels.
func TestCuBLASWorksInPlannedMemory(t *testing.T) {
	d := opened(t, Options{CuBLAS: true})
	s := kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{8, 8}}
	if got, want := d.Workspace(kernels.MatMul, kernels.MatMulAttrs{}, []kernels.Spec{s, s}, []kernels.Spec{s}), gemmBytes(&d.props); got != want {
		t.Errorf("workspace of %d bytes, want %d", got, want)
	}
	var free [4]int64
	r := rand.New(rand.NewPCG(1, 3))
	for i := range free {
		if _, launched := ran(t, d, kernels.MatMul, kernels.MatMulAttrs{Bias: true, Act: kernels.ReLU},
			[]kernels.Tensor{normals(r, 24, 8, 8), normals(r, 24, 8, 8), normals(r, 24, 8)}); launched != " matmul_end_f32" {
			t.Errorf("launched %q, want cuBLAS and the kernel for bias and activation", launched)
		}
		info, err := d.Info()
		if err != nil {
			t.Fatal(err)
		}
		if free[i] = info.Free; free[i] != free[0] {
			t.Errorf("bytes free after each product: %v", free[:i+1])
		}
	}
}

func TestWithoutCuBLASOpenSaysWhatItLookedFor(t *testing.T) {
	driver := os.Getenv("LD_LIBRARY_PATH")
	driver, _, _ = strings.Cut(driver, ":")
	if !fakecuda.Loaded() {
		t.Skip("needs package fakecuda's driver, which lies beside its own cuBLAS and can be told from it")
	}
	alone := t.TempDir()
	if err := os.Symlink(filepath.Join(driver, "libcuda.so.1"), filepath.Join(alone, "libcuda.so.1")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, os.Args[0])
	c.Env = append(slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "LD_LIBRARY_PATH=") }),
		lifeVariable+"=cublas", "LD_LIBRARY_PATH="+alone)
	out, err := c.CombinedOutput()
	if strings.Contains(string(out), "error: <nil>") {
		t.Skip("the system has a cuBLAS of its own")
	}
	for _, want := range append([]string{"cuBLAS was not found", "LD_LIBRARY_PATH", "left: 0"}, blasNames...) {
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("got %s%v, want %q", out, err, want)
		}
	}
}

func TestErrorsOfCuBLASNameTheCallThatFailed(t *testing.T) {
	if !fakecuda.Loaded() {
		t.Skip("needs package fakecuda's driver, whose calls fail on demand")
	}
	opened(t, Options{CuBLAS: true})
	const outOfMemory = 2
	if err := fakecuda.Fail("cuMemAlloc", 1, outOfMemory); err != nil {
		t.Fatal(err)
	}
	d, err := Open(Options{CuBLAS: true})
	var e *BLASError
	if d != nil || !errors.As(err, &e) || e.Code != 3 || !strings.Contains(e.Call, "cublasCreate") || !errors.Is(err, arena.ErrCapacity) {
		t.Errorf("got %v, want cublasCreate short of memory", err)
	}
	d = opened(t, Options{CuBLAS: true, Graphs: Never})
	bed := newBed(t, d)
	g := &gemm{m: 1, n: 1, k: 1, batch: 1, a: bed.mem.at, b: bed.mem.at + 64, c: bed.mem.at + 128, leadA: 1, leadB: 1, leadC: 1} // without a workspace
	p, err := bound(t, d, func(b *binding) { b.append(step{kind: stepGemm, gemm: g}) })
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Launch(bed.s); !errors.As(err, &e) || !strings.Contains(fmt.Sprint(err), "call 0: cublasGemmStridedBatchedEx: CUBLAS_STATUS_ALLOC_FAILED (3)") {
		t.Errorf("got %v, want one that names the call and cuBLAS's", err)
	}
}
