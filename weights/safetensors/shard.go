package safetensors

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
)

// idBytes are the random bytes in the names of the shards of one Create, so that it overwrites no
// shard of a former one.
const idBytes = 4

// newID returns the part of names that is random.
func newID() string {
	var b [idBytes]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

// isShard reports whether a file's name is that of a shard that Create writes for base:
// base-1f3a9c2e-00001-of-00003.safetensors.
func isShard(name, base string) bool {
	rest, ok := strings.CutPrefix(name, base+"-")
	if !ok {
		return false
	}
	rest, ok = strings.CutSuffix(rest, suffix)
	if !ok || len(rest) < 2*idBytes {
		return false
	}
	id, rest := rest[:2*idBytes], rest[2*idBytes:]
	number, count, ok := strings.Cut(strings.TrimPrefix(rest, "-"), "-of-")
	return ok && strings.HasPrefix(rest, "-") && only(id, "0123456789abcdef") && only(number, "0123456789") && only(count, "0123456789")
}

// only reports whether s has at least one character and no other than those of set.
func only(s, set string) bool {
	return s != "" && strings.Trim(s, set) == ""
}
