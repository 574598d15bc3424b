//go:build mpi && unix && cgo

package mpi

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"
)

const idBytes = 8

// open starts MPI, checks the launcher, and makes the notes.
func (c *comm) open() (err error) {
	m := c.m
	if m.rank, m.size, err = initialize(); err != nil {
		return err
	}
	m.library = library()
	err = checkLauncher(m.library, m.size, os.LookupEnv)
	if err == nil {
		err = c.join()
	}
	if err != nil {
		return errors.Join(err, finalize())
	}
	return nil
}

// join makes this rank's note and opens those of the ranks on the same host. Either all ranks return
// an error or none.
func (c *comm) join() error {
	m := c.m
	id := allocate(idBytes)
	cards := allocate(cardBytes * m.size)
	defer release(id)
	defer release(cards)
	if m.rank == 0 {
		_, _ = rand.Read(id) // it does not fail
	}
	if err := await(startBroadcast(unsafe.Pointer(&id[0]), idBytes, 0)); err != nil {
		return err
	}
	name := hex.EncodeToString(id)
	own, failed := createNote(notePath(m.opt.Notes, name, m.rank))
	mine := card{pid: os.Getpid(), host: hostKey()}
	if failed != nil {
		mine.pid = 0
	}
	mine.encode(cards[cardBytes*m.rank:])
	if err := await(startGather(unsafe.Pointer(&cards[0]), cardBytes)); err != nil {
		return errors.Join(err, failed)
	}
	m.own = own
	broken := -1
	for r := range m.size {
		other := decodeCard(cards[cardBytes*r:])
		if other.pid == 0 {
			broken = r
		}
		if r == m.rank || other.pid == 0 || other.host != mine.host {
			continue
		}
		if n, err := openNote(notePath(m.opt.Notes, name, r)); err == nil { // else the folder is not shared
			c.peers = append(c.peers, peer{rank: r, pid: other.pid, page: n.page})
			c.watch.add(other.pid)
		}
	}
	err := await(compare(0)) // all have opened the notes
	if own != nil {
		failed = errors.Join(failed, own.remove())
	}
	switch {
	case err != nil || failed != nil:
		return errors.Join(err, failed)
	case broken >= 0:
		return fmt.Errorf("mpi: rank %d could not make its note: its own error has the cause", broken)
	}
	return nil
}

// await drives a request of Open, which has no limit.
func await(err error) error {
	for done := false; err == nil && !done; {
		done, err = poll(100*time.Millisecond, 0)
	}
	return err
}
