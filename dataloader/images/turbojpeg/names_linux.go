//go:build !android && (amd64 || arm64)

package turbojpeg

var libraries = []string{"libturbojpeg.so.0", "libturbojpeg.so"}
