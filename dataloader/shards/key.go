package shards

import (
	"path"
	"strings"
)

// split returns the key and the extension of an entry. ok is false for entries that are no part of a
// sample.
func split(name string) (key, ext string, ok bool) {
	name = strings.TrimPrefix(name, "./")
	if inFolder(name, "__MACOSX") {
		return "", "", false
	}
	folder, base := path.Split(name)
	stem, ext, found := strings.Cut(base, ".")
	if !found || stem == "" {
		return "", "", false
	}
	return folder + stem, strings.ToLower(ext), true
}

// inFolder reports whether an element of the name is the given one.
func inFolder(name, element string) bool {
	for e := range strings.SplitSeq(name, "/") {
		if e == element {
			return true
		}
	}
	return false
}

// escapes reports whether the name leads out of its folder.
func escapes(name string) bool {
	return inFolder(name, "..") || inFolder(strings.ReplaceAll(name, `\`, "/"), "..")
}
