// Package page reads README.md and the pages of docs, so that tests compare them with the program: [Blocks] returns the
// output on the pages, each with its command, [Numbers] the amounts in a text, and [Tests] the tests that the pages name.
package page

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Block is output that a page shows.
type Block struct {
	Page    string // path from the root of the module, such as docs/memory.md
	Command string // the first line, without "$ " and without a comment
	Text    string // the lines after it
}

// Args splits the command into the arguments of the program and the word after "| grep ", which is in every line that
// the page shows. Without grep the word is empty.
func (b Block) Args(program string) (args []string, grep string) {
	own, grep, _ := strings.Cut(strings.TrimPrefix(b.Command, program), "| grep ")
	return strings.Fields(strings.TrimSuffix(strings.TrimSpace(own), "2>&1")), grep
}

var speed = regexp.MustCompile(` +\d+ images/s`)

// Compare fails t if the page differs from the lines of printed that contain grep. Speeds and empty lines at the end may differ.
func (b Block) Compare(t testing.TB, printed, grep string) {
	t.Helper()
	var want strings.Builder
	for line := range strings.Lines(printed) {
		if strings.Contains(line, grep) {
			want.WriteString(line)
		}
	}
	const masked = " N images/s"
	lines := strings.TrimRight(want.String(), "\n") + "\n"
	if speed.ReplaceAllString(lines, masked) != speed.ReplaceAllString(b.Text, masked) {
		t.Errorf("%s shows something else than `%s` prints:\n%s", b.Page, b.Command, lines)
	}
}

var text = regexp.MustCompile("(?ms)^```text\n(.*?)^```$")

// Blocks returns the output of a program, with any arguments, on README.md and the pages of docs; "" stands for every program.
// A line that ends in a backslash continues on the next one, as in a shell, so that a page can wrap a long line of output.
func Blocks(t testing.TB, program string) []Block {
	t.Helper()
	var all []Block
	for _, name := range names(t) {
		for _, m := range text.FindAllStringSubmatch(Read(t, name), -1) {
			command, shown, _ := strings.Cut(strings.ReplaceAll(m[1], "\\\n", ""), "\n")
			command, _, _ = strings.Cut(strings.TrimPrefix(command, "$ "), " #")
			command = strings.TrimSpace(command)
			if program == "" || command == program || strings.HasPrefix(command, program+" ") {
				all = append(all, Block{name, command, shown})
			}
		}
	}
	return all
}

var (
	fenced = regexp.MustCompile("(?ms)^```.*?^```$")
	number = regexp.MustCompile(`\d{1,3}(,\d{3})+`)
)

// Numbers returns the numbers with thousands separators in a text, except those in blocks of code.
func Numbers(text string) []string {
	return number.FindAllString(fenced.ReplaceAllString(text, ""), -1)
}

var testName = regexp.MustCompile("`(Test[A-Z]\\w*)`")

// Tests returns the names of tests in backquotes on README.md and the pages of docs, sorted.
func Tests(t testing.TB) []string {
	t.Helper()
	var all []string
	for _, name := range names(t) {
		for _, m := range testName.FindAllStringSubmatch(Read(t, name), -1) {
			all = append(all, m[1])
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Read returns the text of a page. Its path starts at the root of the module.
func Read(t testing.TB, page string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root(t), filepath.FromSlash(page)))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// names returns the paths of all pages from the root of the module.
func names(t testing.TB) []string {
	t.Helper()
	all := []string{"README.md"}
	docs, err := os.ReadDir(filepath.Join(root(t), "docs"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range docs {
		if strings.HasSuffix(f.Name(), ".md") {
			all = append(all, "docs/"+f.Name())
		}
	}
	return all
}

// root returns the root of the module: the directory of the test or one above it.
func root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	t.Fatalf("no go.mod in the directory of the test or above it: %v", err)
	return ""
}
