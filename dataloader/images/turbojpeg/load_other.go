//go:build !((linux || darwin) && !android && (amd64 || arm64)) && !(windows && (amd64 || arm64))

package turbojpeg

import "errors"

var libraries = []string{}

var errPlatform = errors.New("TurboJPEG is not called on this platform")

func load(string) (uintptr, error)            { return 0, errPlatform }
func symbol(uintptr, string) (uintptr, error) { return 0, errPlatform }
func version(string) string                   { return "of unknown version" }
func call(uintptr, ...uintptr) uintptr        { return 0 }
