package pack_test

import (
	"context"
	"encoding/binary"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/pack"
)

// labels is a dataset with three fields of labels, y and w from -1 to most and pair 0 and 1, and one to
// encode.
type labels struct {
	*made
	most int
}

func (l labels) Fetch(ctx context.Context, at dataloader.At, dst [][]byte) error {
	y := at.Index%(l.most+2) - 1
	binary.NativeEndian.PutUint32(dst[1], uint32(y))
	dst[2][0], dst[2][1] = 0, 1
	binary.NativeEndian.PutUint64(dst[4], uint64(y))
	return nil
}

func (l labels) FetchEncoded(ctx context.Context, at dataloader.At, dst, encoded [][]byte) error {
	encoded[0] = append(encoded[0][:0], valueOf(at.Index, 0)...)
	return l.Fetch(ctx, at, dst)
}

var labelled = labels{&made{n: 9, failing: -1, fields: []dataloader.Field{{Name: "jpg", Type: arena.Uint8, Shape: []int{3}},
	{Name: "y", Type: arena.Int32}, {Name: "pair", Type: arena.Uint8, Shape: []int{2}}, {Name: "z", Type: arena.Float32}, {Name: "w", Type: arena.Int64}}}, 2}

// A label that has no class is an error; a negative one is none.
func TestALabelWithoutAClassIsRefused(t *testing.T) {
	for field, want := range map[string]string{
		"y": `sample 3 (step 0): field "y": label 2 of 2 classes`, "w": `field "w": label 2 of 2 classes`, "pair": `sample 0 (step 0): field "pair": label 1 of 1 classes`,
	} {
		n := map[string]int{"y": 3, "w": 3, "pair": 2}[field]
		for missing := range 2 {
			opt := pack.WriteOptions{Workers: 1, Encoded: []string{"jpg"}, Classes: map[string][]string{field: many(n - missing)}}
			err := pack.Write(t.Context(), path(t), labelled, opt)
			if missing == 0 && err != nil || missing == 1 && (!errors.Is(err, dataloader.ErrOption) || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s, %d classes missing: got %v", field, missing, err)
			}
		}
	}
}

func TestAPackKeepsTheNamesOfClasses(t *testing.T) {
	classes := map[string][]string{"y": {"a <b>", "é\n", ""}, "pair": {"one", "two"}}
	p := write(t, labelled, pack.WriteOptions{Encoded: []string{"jpg"}, Classes: classes})
	info, err := pack.Stat(p)
	if err != nil || !reflect.DeepEqual(info.Classes, classes) {
		t.Errorf("got %q, %v", info.Classes, err)
	}
	d := open(t, p, pack.Options{Decoders: decoders})
	if !slices.Equal(d.Classes("y"), classes["y"]) || !slices.Equal(d.Classes("pair"), classes["pair"]) || d.Classes("z") != nil || d.Classes("no") != nil {
		t.Errorf("got %q and %q", d.Classes("y"), d.Classes("pair"))
	}
	d.Classes("y")[0] = "changed"
	if d.Classes("y")[0] != classes["y"][0] {
		t.Error("a caller changes the names")
	}
	classes["y"][1] = "e"
	if other, err := pack.Stat(write(t, labelled, pack.WriteOptions{Encoded: []string{"jpg"}, Classes: classes})); err != nil || other.Fingerprint == info.Fingerprint {
		t.Errorf("other names of classes have the same fingerprint, %v", err)
	}
}

func TestClassesThatDoNotFitAreRefused(t *testing.T) {
	for want, classes := range map[string]map[string][]string{
		`classes of "no"`:                    {"no": {"a"}},
		`field "y": classes: class "a" occ`:  {"y": {"a", "b", "a"}},
		`field "pair": classes: uint8 does`:  {"pair": many(257)},
		`field "z": classes: classes are`:    {"z": {"a"}},
		`field "jpg": classes: it is enc`:    {"jpg": {"a"}},
		`field "y": class 1, "\xff", must`:   {"y": {"a", "\xff"}},
		"classes and notes has":              {"y": {strings.Repeat("x", 1<<20)}},
		`classes of "a", which is no field:`: {"a": nil, "y": {"b"}},
	} {
		err := pack.Write(t.Context(), path(t), labelled, pack.WriteOptions{Encoded: []string{"jpg"}, Classes: classes})
		if !errors.Is(err, dataloader.ErrOption) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	odd := &made{n: 1, failing: -1, fields: []dataloader.Field{{Name: "\xff", Type: arena.Uint8}, {Name: "\xfe", Type: arena.Uint8}}}
	if err := pack.Write(t.Context(), path(t), odd, pack.WriteOptions{}); !errors.Is(err, dataloader.ErrOption) || !strings.Contains(err.Error(), "UTF-8") {
		t.Errorf("names of fields that JSON would change: got %v", err)
	}
}

func TestADescriptionWithBadClassesIsRefused(t *testing.T) {
	b := bytesOf(t, write(t, labelled, pack.WriteOptions{Encoded: []string{"jpg"}, Classes: map[string][]string{"y": many(40)}}))
	for name, c := range map[string]struct {
		field   int
		classes any
		fits    bool
	}{
		"as they are":       {1, []string{"a", "b"}, true},
		"none":              {1, []string{}, true},
		"twice":             {1, []string{"a", "a"}, false},
		"encoded":           {0, []string{"a"}, false},
		"of floats":         {3, []string{"a"}, false},
		"no texts":          {1, []int{1}, false},
		"one text":          {1, "a", false},
		"encoded, and none": {0, []string{}, false},
	} {
		err := read(t, described(t, b, func(d map[string]any) {
			fields := d["fields"].([]any)
			delete(fields[1].(map[string]any), "classes")
			fields[c.field].(map[string]any)["classes"] = c.classes
		}), pack.Options{})
		if c.fits && err != nil {
			t.Errorf("%s: got %v", name, err)
		}
		if !c.fits {
			mustRefuse(t, name, err)
		}
	}
}

// many returns n texts.
func many(n int) (all []string) {
	for i := range n {
		all = append(all, strings.Repeat("x", i))
	}
	return all
}
