package dataloader_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
)

// ragged returns sequences of 3, 0, 1, 5 and 2 numbers.
func ragged(t *testing.T) *dataloader.Sequences {
	t.Helper()
	return must[*dataloader.Sequences](t)(dataloader.NewSequences("w", [][]int32{{1, 2, 3}, {}, {4}, {5, 6, 7, 8, 9}, {10, 11}}))
}

// rows returns a field of numbers of all samples.
func rows(t *testing.T, ds dataloader.Dataset, field string) (all [][]int32) {
	t.Helper()
	for i := range ds.Len() {
		all = append(all, dataloader.View[int32](fetched(t, ds, i)[field]))
	}
	return all
}

func TestPaddedSequencesHaveOneLengthAndAMask(t *testing.T) {
	s := ragged(t)
	if !slices.Equal(s.Lengths(), []int{3, 0, 1, 5, 2}) {
		t.Errorf("lengths %v", s.Lengths())
	}
	for length, want := range map[int]string{
		0: "[[1 2 3 -1 -1] [-1 -1 -1 -1 -1] [4 -1 -1 -1 -1] [5 6 7 8 9] [10 11 -1 -1 -1]] [[3] [0] [1] [5] [2]]",
		2: "[[1 2] [-1 -1] [4 -1] [5 6] [10 11]] [[2] [0] [1] [2] [2]]",
	} {
		ds := must[*dataloader.Slices](t)(dataloader.Pad(s, dataloader.PadOptions{Length: length, Value: -1, Cut: true, Mask: true}))
		if got := fmt.Sprint(rows(t, ds, "w"), rows(t, ds, "w_length")); got != want {
			t.Errorf("length %d: got %s, want %s", length, got, want)
		}
		for i := range ds.Len() {
			for p, v := range fetched(t, ds, i)["w_mask"] {
				if (v == 1) != (p < s.Length(i)) {
					t.Errorf("length %d: the mask of sequence %d at %d is %d", length, i, p, v)
				}
			}
		}
	}
	points := must[*dataloader.Sequences](t)(dataloader.NewSequences("p", [][]float32{{1, 2, 3, 4}, {5, 6}}, 2))
	ds := must[*dataloader.Slices](t)(dataloader.Pad(points, dataloader.PadOptions{Length: 3}))
	if got := dataloader.View[float32](fetched(t, ds, 0)["p"]); !slices.Equal(got, []float32{1, 2, 3, 4, 0, 0}) || !slices.Equal(ds.Fields()[0].Shape, []int{3, 2}) || len(ds.Fields()) != 2 {
		t.Errorf("got %v of %+v", got, ds.Fields())
	}
}

func TestBucketsHaveTheSequencesOfTheirLengths(t *testing.T) {
	s := ragged(t)
	buckets, err := dataloader.PadBuckets(s, []int{1, 3, 4, 5}, dataloader.PadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, b := range buckets {
		got += fmt.Sprint(b.Length, b.Indices, rows(t, b.Dataset, "w"), " ")
	}
	if want := "1 [1 2] [[0] [4]] 3 [0 4] [[1 2 3] [10 11 0]] 5 [3] [[5 6 7 8 9]] "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	cut, err := dataloader.PadBuckets(s, []int{2}, dataloader.PadOptions{Cut: true})
	if err != nil || len(cut) != 1 || cut[0].Dataset.Len() != 5 {
		t.Errorf("with Cut: %+v, %v", cut, err)
	}
}

func TestSequencesThatDoNotFitAreErrors(t *testing.T) {
	s := ragged(t)
	first := func(_ any, err error) error { return err }
	for want, c := range map[string]struct{ got, is error }{
		"sequence 0 has 3 elements, the longest 5":       {first(dataloader.Pad(s, dataloader.PadOptions{Length: 2})), dataloader.ErrOption},
		"value 0.5 is no int32":                          {first(dataloader.Pad(s, dataloader.PadOptions{Value: 0.5})), dataloader.ErrOption},
		"value NaN is no int32":                          {first(dataloader.Pad(s, dataloader.PadOptions{Value: math.NaN()})), dataloader.ErrOption},
		"length -1":                                      {first(dataloader.Pad(s, dataloader.PadOptions{Length: -1, Cut: true})), dataloader.ErrOption},
		"no sequences":                                   {first(dataloader.Pad(nil, dataloader.PadOptions{})), dataloader.ErrOption},
		"sequence 3 has 5 elements, the last bound is 4": {first(dataloader.PadBuckets(s, []int{1, 4}, dataloader.PadOptions{})), dataloader.ErrOption},
		"bound 1 is 1":                                   {first(dataloader.PadBuckets(s, []int{1, 1}, dataloader.PadOptions{})), dataloader.ErrOption},
		"0 bounds":                                       {first(dataloader.PadBuckets(s, nil, dataloader.PadOptions{})), dataloader.ErrOption},
		"sequence 1 has 3 numbers":                       {first(dataloader.NewSequences("x", [][]int64{{1, 2}, {1, 2, 3}}, 2)), dataloader.ErrField},
		"has no name":                                    {first(dataloader.NewSequences("", [][]int64{{1, 2}})), dataloader.ErrField},
	} {
		if c.got == nil || !errors.Is(c.got, c.is) || !strings.Contains(c.got.Error(), want) {
			t.Errorf("%q: got %v", want, c.got)
		}
	}
	if _, err := dataloader.Pad(s, dataloader.PadOptions{Length: 4}); !errors.Is(err, dataloader.ErrOption) || !strings.Contains(err.Error(), "sequence 3 has 5") {
		t.Errorf("one element too many: %v", err)
	}
	empty := must[*dataloader.Sequences](t)(dataloader.NewSequences[uint8]("x", nil))
	if _, err := dataloader.Pad(empty, dataloader.PadOptions{}); !errors.Is(err, dataloader.ErrEmpty) {
		t.Errorf("no sequences: %v", err)
	}
}

const words = "[PAD]\n[UNK]\nthe\ncat's\r\n,\nmüde\n!"

func TestVocabulariesSplitTextIntoWords(t *testing.T) {
	v := must[*dataloader.Vocabulary](t)(dataloader.ReadVocabulary(strings.NewReader(words), "words.txt", "[UNK]"))
	got, err := v.Encode([]int32{9}, "  the cat's,müde\tdog! \xff")
	if want := []int32{9, 2, 3, 4, 5, 1, 6, 1}; err != nil || !slices.Equal(got, want) || v.Len() != 7 || v.Word(5) != "müde" || v.Word(7) != "" || v.Word(-1) != "" {
		t.Errorf("got %v, %v, want %v; %d words", got, err, want, v.Len())
	}
	strict := must[*dataloader.Vocabulary](t)(dataloader.ReadVocabulary(strings.NewReader(words), "words.txt", ""))
	if _, err := dataloader.Tokenize("w", []string{"the", "the dog"}, strict); !errors.Is(err, dataloader.ErrField) || !strings.Contains(err.Error(), `text 1: word "dog"`) {
		t.Errorf("an unknown word: %v", err)
	}
	s := must[*dataloader.Sequences](t)(dataloader.Tokenize("w", []string{"ab", "", "c"}, dataloader.Bytes{First: 2}))
	ds := must[*dataloader.Slices](t)(dataloader.Pad(s, dataloader.PadOptions{}))
	if got := fmt.Sprint(rows(t, ds, "w")); got != "[[99 100] [0 0] [101 0]]" {
		t.Errorf("bytes: %s", got)
	}
	own := dataloader.TokenizerFunc(func(dst []int32, text string) ([]int32, error) { return append(dst, int32(len(text))), nil })
	if s := must[*dataloader.Sequences](t)(dataloader.Tokenize("w", []string{"abc", "d"}, own)); !slices.Equal(s.Lengths(), []int{1, 1}) {
		t.Errorf("function: %v", s.Lengths())
	}
	for i, tok := range []dataloader.Tokenizer{nil, dataloader.Bytes{First: -1}, dataloader.TokenizerFunc(func([]int32, string) ([]int32, error) { return nil, nil })} {
		if _, err := dataloader.Tokenize("w", []string{"a", "b"}, tok); i < 2 && !errors.Is(err, dataloader.ErrOption) {
			t.Errorf("tokenizer %d: %v", i, err)
		}
	}
}

func TestBadVocabulariesNameFileAndByte(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "words.txt: vocabulary at byte 0",
		"a\nb\n\nc":                            "words.txt: line 3 at byte 4: want a word, got an empty line",
		"a\nbb\na\n":                           `line 3 at byte 5: want a new word, got "a" of line 1`,
		"a\n\xff\n":                            "line 2 at byte 2: want UTF-8",
		"a\n" + strings.Repeat("x", 1<<17):     "line 2 at byte 2: want a word of at most 65536 bytes",
		strings.Repeat("x", 1<<16+1) + "\ny\n": "line 1 at byte 0: want a word of at most 65536 bytes",
		"a\nb\n":                               `at byte 4: want the word "[UNK]"`,
	} {
		_, err := dataloader.ReadVocabulary(strings.NewReader(text), "words.txt", "[UNK]")
		if !errors.Is(err, dataloader.ErrFormat) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: got %v, want %s", text, err, want)
		}
	}
	if _, err := dataloader.ReadVocabulary(strings.NewReader(strings.Repeat("x", 1<<16)+"\n[UNK]"), "words.txt", "[UNK]"); err != nil {
		t.Errorf("a word of 64 KiB: %v", err)
	}
}

func FuzzVocabulary(f *testing.F) {
	f.Add(words, "the cat's, dog", "[UNK]")
	f.Add("a\n\nb", "a b", "")
	f.Add("\xff\r\n\r", "\xff\u0301", "a")
	f.Fuzz(func(t *testing.T, file, text, unknown string) {
		v, err := dataloader.ReadVocabulary(strings.NewReader(file), "f", unknown)
		if err != nil {
			if !errors.Is(err, dataloader.ErrFormat) {
				t.Fatal(err)
			}
			return
		}
		if v.Len() > strings.Count(file, "\n")+1 {
			t.Fatalf("%d words of %q", v.Len(), file)
		}
		tokens, err := v.Encode(nil, text)
		if err != nil && (unknown != "" || !errors.Is(err, dataloader.ErrField)) {
			t.Fatal(err)
		}
		for _, x := range tokens {
			if v.Word(x) == "" || len(tokens) > len(text) {
				t.Fatalf("tokens %v of %q", tokens, text)
			}
		}
	})
}
