package page

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// programs are the commands whose tests compare the pages with their output: see runtest.Shows and internal/nets/main.
var programs = []string{"go run ./examples/mlp", "go run ./examples/cnn", "go run ./examples/resnet", "go run ./internal/nets/main"}

// Every block of text on a page is output that a test compares.
func TestEveryOutputIsCompared(t *testing.T) {
	for _, b := range Blocks(t, "") {
		if !slices.ContainsFunc(programs, func(p string) bool { return b.Command == p || strings.HasPrefix(b.Command, p+" ") }) {
			t.Errorf("%s shows output below %q: want %q and the command, one whose test compares what is shown", b.Page, b.Command, "$ ")
		}
	}
	for _, p := range programs {
		if len(Blocks(t, p)) == 0 {
			t.Errorf("no page shows output of %q: it is not needed here", p)
		}
	}
}

// A page wraps a long line of output with a backslash.
func TestABackslashContinuesALine(t *testing.T) {
	for _, b := range Blocks(t, "go run ./examples/mlp") {
		if strings.Contains(b.Text, "\\\n") {
			t.Errorf("%s, %s: a backslash is left in\n%s", b.Page, b.Command, b.Text)
		}
		if strings.Contains(b.Text, "needs 9450752 bytes (9.0 MiB), there are 9000000") {
			return
		}
	}
	t.Error("the refused plan of docs/memory.md is not one line")
}

// A promise on a page names the test that shows it.
func TestTheTestsThatPagesNameExist(t *testing.T) {
	functions := map[string]bool{}
	err := filepath.WalkDir(root(t), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(source, -1) {
			functions[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := Tests(t)
	if len(named) == 0 {
		t.Error("no page names a test")
	}
	for _, name := range named {
		if !functions[name] {
			t.Errorf("a page names %s, which is no test", name)
		}
	}
}

// failing records whether a test failed.
type failing struct {
	testing.TB
	failed bool
}

func (f *failing) Helper()               {}
func (f *failing) Errorf(string, ...any) { f.failed = true }

func TestOnlySpeedsMayDiffer(t *testing.T) {
	b := Block{"README.md", "go run ./x -a 1 2>&1 | grep epoch", "epoch 1  10 images/s  loss 2\n"}
	args, grep := b.Args("go run ./x")
	if !slices.Equal(args, []string{"-a", "1"}) || grep != "epoch" {
		t.Fatalf("arguments %q, word %q", args, grep)
	}
	for _, c := range []struct {
		printed, grep string
		same          bool
	}{
		{"plan\nepoch 1   1234 images/s  loss 2\n", grep, true},
		{"epoch 1  10 images/s  loss 2\n\n", "", true},
		{"epoch 1  10 images/s  loss 2.0\n", grep, false},
		{"epoch 1  10 images/s  loss 2\nepoch 2\n", grep, false},
		{"", grep, false},
	} {
		f := &failing{TB: t}
		if b.Compare(f, c.printed, c.grep); f.failed == c.same {
			t.Errorf("%q: same %v, want %v", c.printed, !f.failed, c.same)
		}
	}
}
