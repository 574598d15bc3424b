//go:build windows && (amd64 || arm64)

package turbojpeg

import (
	"os"
	"syscall"
)

var libraries = []string{"turbojpeg.dll", "libturbojpeg.dll"}

func load(name string) (uintptr, error) {
	h, err := syscall.LoadLibrary(name)
	return uintptr(h), err
}

func symbol(lib uintptr, name string) (uintptr, error) {
	return syscall.GetProcAddress(syscall.Handle(lib), name)
}

// version returns the version of a library whose name is a path.
func version(name string) string {
	b, err := os.ReadFile(name)
	if err != nil {
		return "of unknown version"
	}
	return versionIn(b)
}
