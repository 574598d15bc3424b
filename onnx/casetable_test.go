package onnx

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// caseTable counts cases by operator.
type caseTable struct{ rows map[string]*caseRow }

type caseRow struct {
	own      [wrong + 1]int // by fate
	expanded [wrong + 1]int
	reasons  map[string]int // why cases of its own are refused
	rule     bool
}

func newCaseTable() *caseTable { return &caseTable{rows: map[string]*caseRow{}} }

// String is the word in the table.
func (f fate) String() string {
	return [...]string{"passed", "folded", "refused", "differs", "wrong"}[f]
}

func (t *caseTable) add(c *nodeCase, is fate, err error) {
	row := t.rows[c.Operator]
	if row == nil {
		row = &caseRow{reasons: map[string]int{}, rule: rules[c.Operator] != nil || c.Operator == "Identity"}
		t.rows[c.Operator] = row
	}
	if c.Expanded {
		row.expanded[is]++
		return
	}
	row.own[is]++
	if is == refused || is == differs {
		row.reasons[reasonOf(err)]++
	}
}

// numbers are left out of reasons, so that cases have the same one.
var numbers = regexp.MustCompile(`\([0-9, ]+\)|\[[0-9 -]+\]|[0-9]+`)

// reasonOf returns the reason in few words.
func reasonOf(err error) string {
	var nodes *ImportError
	if errors.As(err, &nodes) {
		err = nodes.Nodes[0].Reason
	}
	s := err.Error()
	if m := regexp.MustCompile(`type (bfloat16|float16|type [0-9]+|uint64)`).FindStringSubmatch(s); m != nil {
		if strings.HasPrefix(m[1], "type") {
			return "other types"
		}
		return m[1]
	}
	switch {
	case strings.Contains(s, "not all values are tensors"):
		return "other types"
	case strings.Contains(s, "is a graph"):
		return "subgraphs"
	case strings.Contains(s, "has no elements"), strings.Contains(s, "no elements"):
		return "no elements"
	}
	s, _, _ = strings.Cut(s, ": unsupported")
	s, _, _ = strings.Cut(s, ": export")
	s, _, _ = strings.Cut(s, ": shapes do not fit")
	return strings.TrimSpace(strings.ReplaceAll(numbers.ReplaceAllString(s, "…"), "… …", "…"))
}

func (t *caseTable) names() []string { return slices.Sorted(maps.Keys(t.rows)) }

// sum is all rows as one line.
func (t *caseTable) sum() string {
	var own, expanded [wrong + 1]int
	for _, row := range t.rows {
		for f := range row.own {
			own[f] += row.own[f]
			expanded[f] += row.expanded[f]
		}
	}
	line := func(n [wrong + 1]int) string {
		return fmt.Sprintf("%d passed, %d computed at import, %d refused, %d differ by design, %d wrong",
			n[passed], n[folded], n[refused], n[differs], n[wrong])
	}
	return fmt.Sprintf("Operators: %s. Expanded: %s.", line(own), line(expanded))
}

// String is the table as Markdown.
func (t *caseTable) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s\n\n| operator | passed | at import | refused | expanded | refused, or differs, because of |\n|---|--:|--:|--:|--:|---|\n", t.sum())
	var none []string
	for _, name := range t.names() {
		row := t.rows[name]
		if !row.rule {
			none = append(none, name)
			continue
		}
		var why []string
		for _, r := range slices.Sorted(maps.Keys(row.reasons)) {
			why = append(why, fmt.Sprintf("%s %d", r, row.reasons[r]))
		}
		number := func(n int) string {
			if n == 0 {
				return ""
			}
			return fmt.Sprint(n)
		}
		expanded := ""
		if e := row.expanded; e != [wrong + 1]int{} {
			expanded = fmt.Sprintf("%d of %d", e[passed]+e[folded], e[passed]+e[folded]+e[refused]+e[differs]+e[wrong])
		}
		fmt.Fprintf(&s, "| %s | %s | %s | %s | %s | %s |\n", name, number(row.own[passed]), number(row.own[folded]), number(row.own[refused]+row.own[differs]), expanded, strings.Join(why, ", "))
	}
	fmt.Fprintf(&s, "\nNo rule, so refused by name: %s.\n", strings.Join(none, ", "))
	return s.String()
}

// The table in the page is between these lines.
const (
	tableBegin = "<!-- node cases: go test ./onnx -run TestNodeCases -cases FILE -rewrite -->\n"
	tableEnd   = "<!-- end of node cases -->\n"
)

// write replaces the table in a page.
func (t *caseTable) write(tb testing.TB, path string) {
	tb.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(b), tableBegin)
	_, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok1 || !ok2 {
		tb.Fatalf("%s has no place for the table", path)
	}
	page := before + tableBegin + "\n" + t.String() + "\n" + tableEnd + after
	if err := os.WriteFile(path, []byte(page), 0o666); err != nil {
		tb.Fatal(err)
	}
}
