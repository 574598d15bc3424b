package tokens_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/tokens"
)

func TestWrittenTokensAreRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.bin")
	for bits, last := range map[int]int32{0: 1<<16 - 1, 16: 1<<16 - 1, 32: 1<<31 - 1} {
		s, err := dataloader.NewSequences("text", [][]int32{{0, 258, 3}, {}, {last}})
		if err != nil {
			t.Fatal(err)
		}
		if err := tokens.Write(path, s, bits); err != nil {
			t.Fatal(err)
		}
		ds, err := tokens.Open(path, tokens.Options{Window: 3, Bits: bits, Single: true})
		if err != nil {
			t.Fatal(err)
		}
		got, err := fetched(t, ds, 0)
		if err != nil || ds.Len() != 1 || !slices.Equal(got[0], []int32{0, 258, 3, last}) {
			t.Errorf("%d bits: got %v, %v", bits, got, err)
		}
		if err := ds.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestTokensThatDoNotFitAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.bin")
	if err := os.WriteFile(path, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	sequences := func(all ...int32) *dataloader.Sequences {
		s, err := dataloader.NewSequences("text", [][]int32{{1}, all})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	floats, err := dataloader.NewSequences("text", [][]float32{{1}})
	if err != nil {
		t.Fatal(err)
	}
	pairs, err := dataloader.NewSequences("text", [][]int32{{1, 2}}, 2)
	if err != nil {
		t.Fatal(err)
	}
	for want, c := range map[string]struct {
		s    *dataloader.Sequences
		bits int
		is   error
	}{
		"token 1 of sequence 1 is 65536, and 16 bits hold 0 to 65535": {sequences(7, 1<<16), 16, dataloader.ErrOption},
		"token 0 of sequence 1 is -1, and 32 bits":                    {sequences(-1), 32, dataloader.ErrOption},
		"tokens of 8 bits":                   {sequences(1), 8, dataloader.ErrOption},
		"no sequences":                       {nil, 16, dataloader.ErrOption},
		"elements of float32 []: tokens are": {floats, 16, dataloader.ErrField},
		"elements of int32 [2]: tokens are":  {pairs, 16, dataloader.ErrField},
	} {
		if err := tokens.Write(path, c.s, c.bits); !errors.Is(err, c.is) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "before" {
		t.Errorf("the former file is %q, %v", b, err)
	}
	if all, err := os.ReadDir(filepath.Dir(path)); err != nil || len(all) != 1 {
		t.Errorf("files %v, %v", all, err)
	}
}
