package shards

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/evenkeel/evenkeel/dataloader"
)

// mostShards is the most names that a pattern may stand for.
const mostShards = 1 << 20

// Expand returns the names that the braces of a pattern stand for, in order: {000..099} is a sequence
// of numbers with as many digits as the longer bound if one has a leading zero, {a,b} a list. Several
// braces are combined; they do not nest. "::" separates patterns. More than 1,048,576 names are an
// error that wraps dataloader.ErrOption, as are braces that are not closed.
func Expand(pattern string) ([]string, error) {
	var all []string
	for p := range strings.SplitSeq(pattern, "::") {
		names, err := expand(p, mostShards-len(all))
		if err != nil {
			return nil, fmt.Errorf("shards %q: %w: %w", pattern, err, dataloader.ErrOption)
		}
		all = append(all, names...)
	}
	return all, nil
}

var errMany = fmt.Errorf("stands for more than %d names", mostShards)

// expand expands the braces of one pattern to at most the given number of names.
func expand(pattern string, most int) ([]string, error) {
	head, rest, found := strings.Cut(pattern, "{")
	if strings.Contains(head, "}") {
		return nil, errors.New("} without {")
	}
	if !found {
		if most < 1 {
			return nil, errMany
		}
		return []string{pattern}, nil
	}
	inner, tail, closed := strings.Cut(rest, "}")
	if !closed || strings.Contains(inner, "{") {
		return nil, errors.New("{ without }, or braces within braces")
	}
	choices, err := choices(inner, most)
	if err != nil {
		return nil, err
	}
	tails, err := expand(tail, most/max(1, len(choices)))
	if err != nil {
		return nil, err
	}
	all := make([]string, 0, len(choices)*len(tails))
	for _, c := range choices {
		for _, t := range tails {
			all = append(all, head+c+t)
		}
	}
	return all, nil
}

// choices returns what the contents of braces stand for.
func choices(inner string, most int) ([]string, error) {
	first, last, ok := strings.Cut(inner, "..")
	if !ok {
		return strings.Split(inner, ","), nil
	}
	from, err1 := strconv.ParseUint(first, 10, 62)
	to, err2 := strconv.ParseUint(last, 10, 62)
	if err1 != nil || err2 != nil || from > to {
		return nil, fmt.Errorf("{%s}: want two numbers, the first not above the second", inner)
	}
	if to-from >= uint64(max(0, most)) {
		return nil, errMany
	}
	digits := 0
	if len(first) > 1 && first[0] == '0' || len(last) > 1 && last[0] == '0' {
		digits = max(len(first), len(last))
	}
	var all []string
	for n := from; n <= to; n++ {
		all = append(all, fmt.Sprintf("%0*d", digits, n))
	}
	return all, nil
}

// find returns the names of the files of a pattern, sorted by bytes, each once. Names with *, ? or [
// are matched against fsys; one without a match is an error.
func find(fsys fs.FS, pattern string) ([]string, error) {
	expanded, err := Expand(pattern)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, p := range expanded {
		if !strings.ContainsAny(p, "*?[") {
			names = append(names, p)
			continue
		}
		matches, err := fs.Glob(fsys, p)
		if err != nil {
			return nil, fmt.Errorf("shards %q: %w: %w", p, err, dataloader.ErrOption)
		}
		if len(matches) == 0 {
			return nil, fmt.Errorf("shards %q: no file matches: %w", p, fs.ErrNotExist)
		}
		if names = append(names, matches...); len(names) > mostShards {
			return nil, fmt.Errorf("shards %q: %w: %w", pattern, errMany, dataloader.ErrOption)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// folderOf splits a pattern of this machine's paths into the folder before the first special
// character and the pattern in it. All patterns that :: separates must be in that folder.
func folderOf(pattern string) (folder, rest string, err error) {
	var parts []string
	for i, p := range strings.Split(pattern, "::") {
		p = path.Clean(p)
		static := p
		if j := strings.IndexAny(p, "*?[{"); j >= 0 {
			static = p[:j]
		}
		dir, _ := path.Split(static)
		if i == 0 {
			folder = dir
		}
		if dir != folder {
			return "", "", fmt.Errorf("shards %q: patterns in several folders: open the folder above them with OpenFS: %w", pattern, dataloader.ErrOption)
		}
		parts = append(parts, p[len(dir):])
	}
	if folder == "" {
		folder = "."
	}
	return folder, strings.Join(parts, "::"), nil
}
