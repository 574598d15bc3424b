package parquet_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/internal/tabletest"
	"github.com/evenkeel/evenkeel/dataloader/parquet"
)

func TestEncodedImagesAreTheBytesOfTheFile(t *testing.T) {
	t.Parallel()
	want := tabletest.Expect(t, "images")["image"]
	d := open(t, "images.parquet", parquet.Options{Columns: []parquet.Column{{Name: "label", Type: arena.Int32}, {Name: "image", Decoder: tabletest.Pixels{}}}})
	label, encoded := make([]byte, 4), make([][]byte, 2)
	for i := range d.Len() {
		var file []byte
		for _, x := range want[i].([]any) {
			n, _ := x.(json.Number).Int64()
			file = append(file, byte(n))
		}
		if err := d.FetchEncoded(t.Context(), dataloader.At{Index: i}, [][]byte{label, nil}, encoded); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(encoded[1], file) || encoded[0] != nil || dataloader.View[int32](label)[0] != int32(i%2) {
			t.Errorf("row %d: label %v, %d bytes, want %d", i, label, len(encoded[1]), len(file))
		}
	}
	dst := tabletest.Slots(d)
	if err := d.FetchEncoded(t.Context(), dataloader.At{Index: 5}, dst, encoded); err != nil || !bytes.Equal(dst[1], tabletest.Fetch(t, d, 5)[1]) {
		t.Errorf("an image with a destination is not decoded: %v", err)
	}
	for name, c := range map[string][2][][]byte{
		"the label": {{nil, dst[1]}, {nil, nil}}, "one field": {{label}, {nil, nil}}, "one place": {{label, nil}, {nil}},
	} {
		if err := d.FetchEncoded(t.Context(), dataloader.At{}, c[0], c[1]); !errors.Is(err, dataloader.ErrOption) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if err := d.FetchEncoded(t.Context(), dataloader.At{Index: d.Len()}, [][]byte{label, nil}, encoded); !errors.Is(err, dataloader.ErrOption) {
		t.Errorf("sample %d: got %v", d.Len(), err)
	}
}
