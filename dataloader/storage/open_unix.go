//go:build unix

package storage

import "syscall"

// openFlags keep the opening of a pipe from blocking, should one take the name of a file between
// Stat and Open. They change nothing for regular files.
const openFlags = syscall.O_NONBLOCK
