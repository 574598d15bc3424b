//go:build !unix

package storage

// openFlags are those of open_unix.go: there is nothing to add here.
const openFlags = 0
