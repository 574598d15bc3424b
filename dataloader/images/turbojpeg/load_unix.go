//go:build (linux || darwin) && !android && (amd64 || arm64)

package turbojpeg

import (
	"os"
	"strings"

	"github.com/ebitengine/purego"
)

func load(name string) (uintptr, error) {
	return purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
}

func symbol(lib uintptr, name string) (uintptr, error) { return purego.Dlsym(lib, name) }

// version returns the version of a library that is loaded. Linux lists its file in
// /proc/self/maps; elsewhere the name must be a path.
func version(name string) string {
	file := name
	if maps, err := os.ReadFile("/proc/self/maps"); err == nil {
		for line := range strings.Lines(string(maps)) {
			if at := strings.IndexByte(line, '/'); at >= 0 && strings.Contains(line[at:], "turbojpeg.so") {
				file = strings.TrimSpace(line[at:])
			}
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "of unknown version"
	}
	return versionIn(b)
}
