//go:build ((linux || darwin) && !android && (amd64 || arm64)) || (windows && (amd64 || arm64))

package turbojpeg

import "github.com/ebitengine/purego"

// call calls a C function. Memory that it uses must be pinned.
func call(fn uintptr, args ...uintptr) uintptr {
	r, _, _ := purego.SyscallN(fn, args...)
	return r
}
