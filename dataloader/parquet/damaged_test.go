package parquet_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/internal/tabletest"
	"github.com/evenkeel/evenkeel/dataloader/parquet"
)

// damaged is a decoder to which every value is damaged.
type damaged struct{}

func (damaged) Field(name string) dataloader.Field { return tabletest.Pixels{}.Field(name) }
func (damaged) Decode(dataloader.At, []byte, []byte) error {
	return &dataloader.FormatError{What: "picture", Want: "a whole picture", Got: "half of one"}
}

// The error of a decoder names the file, the field and the row, and is still that of a bad sample.
func TestADamagedValueIsNamed(t *testing.T) {
	d := open(t, "images.parquet", parquet.Options{Columns: []parquet.Column{{Name: "image", Field: "x", Decoder: damaged{}}}})
	err := d.Fetch(t.Context(), dataloader.At{Index: 1}, [][]byte{make([]byte, dataloader.SampleBytes(d))})
	if !errors.Is(err, dataloader.ErrFormat) || !dataloader.IsBad(err) {
		t.Fatalf("got %v, want the error of a bad sample", err)
	}
	for _, want := range []string{"images.parquet", `field "x", row group 0: row 1 of the group`, "half of one"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}
