//go:build mpi && unix && cgo

package mpi

import (
	"crypto/sha256"
	"encoding/binary"
	"os"
)

// hostKey identifies the host, and on Linux its boot and the name space of process numbers: ranks
// with the same key see each other's processes.
func hostKey() (key [hostBytes]byte) {
	h := sha256.New()
	name, _ := os.Hostname()
	h.Write([]byte(name))
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	h.Write(boot)
	space, _ := os.Readlink("/proc/self/ns/pid")
	h.Write([]byte(space))
	copy(key[:], h.Sum(nil))
	return key
}

const (
	hostBytes = 16
	cardBytes = 8 + hostBytes
)

// card is what each rank tells all others when the group opens: the number of its process and the
// key of its host. A rank that could not make its note has the number 0.
type card struct {
	pid  int
	host [hostBytes]byte
}

func (c card) encode(b []byte) {
	binary.LittleEndian.PutUint64(b, uint64(c.pid))
	copy(b[8:cardBytes], c.host[:])
}

func decodeCard(b []byte) (c card) {
	c.pid = int(binary.LittleEndian.Uint64(b))
	copy(c.host[:], b[8:cardBytes])
	return c
}
