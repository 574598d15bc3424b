package parquet_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	pq "github.com/parquet-go/parquet-go"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/parquet"
)

// lists is a row with a list, one of lists and a number.
type lists struct {
	L []int32   `parquet:"l,list"`
	M [][]int32 `parquet:"m,list"`
	N int64     `parquet:"n"`
}

// few returns up to 4 numbers, mostly 2, and rarely many.
func few(r *rand.Rand) []int32 {
	n := 2
	if r.IntN(4) == 0 {
		n = r.IntN(5)
	}
	if r.IntN(300) == 0 {
		n = 2000
	}
	all := make([]int32, n)
	for i := range all {
		all[i] = r.Int32()
	}
	return all
}

// Rows with lists of any lengths, and numbers that the field does not hold, leave the others as they are.
func TestBadRowsLeaveTheOthersAsTheyAre(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		all := make([]lists, 1+r.IntN(400))
		var b bytes.Buffer
		w := pq.NewGenericWriter[lists](&b, pq.PageBufferSize(512), pq.MaxRowsPerRowGroup(150))
		for i := range all {
			all[i] = lists{L: few(r), M: [][]int32{few(r), few(r)}, N: int64(r.IntN(22)/10) << 30}
			if r.IntN(8) == 0 {
				all[i].M = all[i].M[:1]
			}
		}
		if _, err := w.Write(all); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		d, err := parquet.OpenFS(fstest.MapFS{"t.parquet": {Data: b.Bytes()}}, "t.parquet", parquet.Options{Columns: []parquet.Column{
			{Name: "l", Shape: []int{2}}, {Name: "m", Shape: []int{2, 2}}, {Name: "n", Type: arena.Int32}}})
		if err != nil {
			t.Fatal(err)
		}
		dst := [][]byte{make([]byte, 8), make([]byte, 16), make([]byte, 4)}
		for i, x := range all {
			want := []string{}
			if len(x.L) != 2 {
				want = append(want, `column "l"`)
			}
			if len(x.M) != 2 || len(x.M[0]) != 2 || len(x.M[1]) != 2 {
				want = append(want, `column "m"`)
			}
			if x.N != int64(int32(x.N)) {
				want = append(want, `column "n"`)
			}
			err := d.Fetch(t.Context(), dataloader.At{Index: i}, dst)
			if len(want) > 0 {
				if err == nil || !strings.Contains(err.Error(), want[0]) {
					t.Errorf("seed %d, row %d: got %v, want an error of %s", seed, i, err, want[0])
				}
				continue
			}
			if err != nil || !slices.Equal(dataloader.View[int32](dst[0]), x.L) || !slices.Equal(dataloader.View[int32](dst[1]), slices.Concat(x.M...)) ||
				dataloader.View[int32](dst[2])[0] != int32(x.N) {
				t.Errorf("seed %d, row %d %v: got %v, %v", seed, i, x, dst, err)
			}
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}
