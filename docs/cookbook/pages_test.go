package cookbook_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// between returns the text of s from the end of a to the beginning of the next b.
func between(s, a, b string) (string, bool) {
	_, s, begins := strings.Cut(s, a)
	s, _, ends := strings.Cut(s, b)
	return strings.TrimSpace(s), begins && ends
}

// Each page shows the program of the example that runs here, and the index links it.
func TestPagesShowThePrograms(t *testing.T) {
	index, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, page := range pages {
		if page == "README.md" {
			continue
		}
		compared++
		name := strings.TrimSuffix(page, ".md")
		source, err := os.ReadFile(name + "_test.go")
		if err != nil {
			t.Error(err)
			continue
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Error(err)
			continue
		}
		const mark = "// The program of "
		want, marked := between(string(source), mark+page+" begins here.\n", mark+page+" ends here.\n")
		got, shown := between(string(text), "```go\n", "```\n")
		if !marked || !shown {
			t.Errorf("%s: the program is marked: %t, shown: %t", page, marked, shown)
		} else if got != want {
			t.Errorf("%s does not show the program of %s_test.go between its markers: copy it", page, name)
		}
		if !strings.Contains(string(index), "]("+page+")") {
			t.Errorf("README.md does not link %s", page)
		}
	}
	if examples, _ := filepath.Glob("*_test.go"); compared == 0 || compared != len(examples)-1 {
		t.Errorf("%d pages of %d files of tests", compared, len(examples))
	}
}
