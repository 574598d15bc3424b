package shards_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/shards"
)

func TestExpand(t *testing.T) {
	for pattern, want := range map[string]string{
		"a.tar":                "a.tar",
		"t-{000..003}.tar":     "t-000.tar t-001.tar t-002.tar t-003.tar",
		"{8..11}":              "8 9 10 11",
		"{08..11}":             "08 09 10 11",
		"{1..002}":             "001 002",
		"{0..1}":               "0 1",
		"{a,b}-{1..2}.{x,y,z}": "a-1.x a-1.y a-1.z a-2.x a-2.y a-2.z b-1.x b-1.y b-1.z b-2.x b-2.y b-2.z",
		"a.tar::b-{1..2}.tar":  "a.tar b-1.tar b-2.tar",
		"{5..5}":               "5",
	} {
		got, err := shards.Expand(pattern)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: got %q, %v, want %s", pattern, got, err, want)
		}
	}
	for _, pattern := range []string{"{1..2", "1..2}", "{{1..2}}", "{2..1}", "{a..z}", "{1..2..3}", "{0..1048576}", "{0..4611686018427387903}",
		"{0..9223372036854775807}", "{-1..2}", "{0..1023}{0..1024}", "{1..2}}"} {
		if got, err := shards.Expand(pattern); !errors.Is(err, dataloader.ErrOption) {
			t.Errorf("%s: got %d names, %v, want ErrOption", pattern, len(got), err)
		}
	}
	if got, err := shards.Expand("{0..1023}{0..63}::{0..0}"); err != nil || len(got) != 1<<16+1 {
		t.Errorf("65,537 names: got %d, %v", len(got), err)
	}
}

// Names are sorted by bytes and used once; shards may lie in folders.
func TestShardsAreSortedByName(t *testing.T) {
	dir := t.TempDir()
	for i, name := range []string{"a.tar", "b/10.tar", "b/9.tar"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), archive(t, samples(i, 1, 3)...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for pattern, want := range map[string][]string{
		"{b/9,a,b/10}.tar":         {"a.tar", "b/10.tar", "b/9.tar"},
		"b/9.tar":                  {"9.tar"},
		"b/9.tar::b/*.tar":         {"10.tar", "9.tar"},
		"*/9.tar::a.tar::a.tar":    {"a.tar", "b/9.tar"},
		"./b/../b/{9..10}.tar":     {"10.tar", "9.tar"},
		"[a-b].tar":                {"a.tar"},
		"b/{9,1?,nothing*::9}.tar": nil,
		"a.tar::b/9.tar":           nil,
		"*.zip":                    nil,
		"[":                        nil,
		"missing-{0..3}.tar":       nil,
		"../{0..3}.tar":            nil,
		"nowhere/train-{0..3}.tar": nil,
	} {
		d, err := shards.Open(dir+"/"+strings.ReplaceAll(pattern, "::", "::"+dir+"/"), shards.Options{Fields: two(3)})
		if want == nil {
			if err == nil {
				t.Errorf("%s: got no error", pattern)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", pattern, err)
			continue
		}
		if got := d.Info().Names; !slices.Equal(got, want) || d.Len() != len(want) {
			t.Errorf("%s: got %q, want %q", pattern, got, want)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

func FuzzExpand(f *testing.F) {
	for _, s := range []string{"a-{000..003}.tar", "{a,b}{1..2}", "{{}}", "a::b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		names, err := shards.Expand(s)
		if err == nil && len(names) > 1<<20 || err != nil && !errors.Is(err, dataloader.ErrOption) {
			t.Error(len(names), fmt.Sprint(err))
		}
	})
}
