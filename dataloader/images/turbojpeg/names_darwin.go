//go:build amd64 || arm64

package turbojpeg

var libraries = []string{"libturbojpeg.dylib", "libturbojpeg.0.dylib", "/opt/homebrew/lib/libturbojpeg.dylib", "/usr/local/lib/libturbojpeg.dylib",
	"/opt/homebrew/opt/jpeg-turbo/lib/libturbojpeg.dylib", "/usr/local/opt/jpeg-turbo/lib/libturbojpeg.dylib"}
