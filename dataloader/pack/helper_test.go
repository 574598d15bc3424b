package pack_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/pack"
	"github.com/evenkeel/evenkeel/internal/seed"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// made is a dataset whose bytes are a function of the sample, the field and the seed; failing is the
// index of a sample that fails, or -1.
type made struct {
	n       int
	fields  []dataloader.Field
	failing int
}

func (m *made) Len() int                   { return m.n }
func (m *made) Fields() []dataloader.Field { return m.fields }
func (m *made) Fetch(_ context.Context, at dataloader.At, dst [][]byte) error {
	if at.Index == m.failing {
		return fmt.Errorf("sample %d is bad", at.Index)
	}
	for k := range dst {
		if dst[k] != nil {
			r := rand.New(rand.NewPCG(uint64(at.Index)^at.Seed, uint64(k)))
			for i := range dst[k] {
				dst[k][i] = byte(r.Uint32())
			}
		}
	}
	return nil
}

// FetchEncoded has values of 0 to 2999 bytes.
func (m *made) FetchEncoded(ctx context.Context, at dataloader.At, dst, encoded [][]byte) error {
	for k := range dst {
		if dst[k] == nil {
			encoded[k] = append(encoded[k][:0], valueOf(at.Index, k)...)
		}
	}
	return m.Fetch(ctx, at, dst)
}

// valueOf returns the encoded value of a field.
func valueOf(index, k int) []byte {
	r := rand.New(rand.NewPCG(uint64(index), uint64(k)))
	b := make([]byte, r.IntN(3000))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// measure decodes a value to its length and the sum of its bytes.
type measure struct{ fail error }

func (measure) Field(name string) dataloader.Field {
	return dataloader.Field{Name: name, Type: arena.Int64, Shape: []int{2}}
}

func (m measure) Decode(_ dataloader.At, encoded, dst []byte) error {
	binary.NativeEndian.PutUint64(dst, uint64(len(encoded)))
	sum := uint64(0)
	for _, b := range encoded {
		sum += uint64(b)
	}
	binary.NativeEndian.PutUint64(dst[8:], sum)
	return m.fail
}

// random returns a generator and prints the seed if the test fails.
func random(t testing.TB) *rand.Rand { return seed.Rand(t, 7) }

// someFields returns fields of random types and shapes.
func someFields(r *rand.Rand) []dataloader.Field {
	all := []arena.DType{arena.Float32, arena.Float64, arena.Uint8, arena.Int32, arena.Int64, arena.Float16, arena.BFloat16}
	var fields []dataloader.Field
	for k := range 1 + r.IntN(4) {
		f := dataloader.Field{Name: fmt.Sprintf("f%d", k), Type: all[r.IntN(len(all))], Scale: r.NormFloat64(), Shift: r.NormFloat64()}
		for range r.IntN(3) {
			f.Shape = append(f.Shape, 1+r.IntN(6))
		}
		fields = append(fields, f)
	}
	return fields
}

// path returns a path in a new folder.
func path(t testing.TB) string { return filepath.Join(t.TempDir(), "data.pack") }

// write packs ds and returns the path.
func write(t testing.TB, ds dataloader.Dataset, opt pack.WriteOptions) string {
	t.Helper()
	p := path(t)
	if err := pack.Write(t.Context(), p, ds, opt); err != nil {
		t.Fatal(err)
	}
	return p
}

func open(t testing.TB, path string, opt pack.Options) *pack.Dataset {
	t.Helper()
	d, err := pack.Open(path, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// memory returns room for one sample.
func memory(ds dataloader.Dataset) (dst [][]byte) {
	for _, f := range ds.Fields() {
		dst = append(dst, make([]byte, f.Bytes()))
	}
	return dst
}

// fetch returns the bytes of a sample.
func fetch(t testing.TB, ds dataloader.Dataset, at dataloader.At) [][]byte {
	t.Helper()
	dst := memory(ds)
	if err := ds.Fetch(t.Context(), at, dst); err != nil {
		t.Fatal(err)
	}
	return dst
}

// equal compares samples.
func equal(a, b [][]byte) bool { return slices.EqualFunc(a, b, slices.Equal) }

// bytesOf returns the contents of a file.
func bytesOf(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
