package weights

import (
	"cmp"
	"errors"
	"os"
)

// memoryBytes is how much a spill keeps in memory by default.
const memoryBytes = 64 << 20

// spill keeps bytes: in memory if they are few, else in a temporary file.
type spill struct {
	memory []byte
	file   *os.File
	n      int64 // bytes
}

// newSpill makes a spill for up to total bytes. It keeps them in memory if they are limit at most, 0
// for memoryBytes.
func newSpill(total, limit int64) (*spill, error) {
	if total <= cmp.Or(limit, memoryBytes) {
		return &spill{memory: make([]byte, 0, total)}, nil
	}
	f, err := os.CreateTemp("", "evenkeel-weights-")
	if err != nil {
		return nil, err
	}
	return &spill{file: f}, nil
}

// append adds bytes at the end.
func (s *spill) append(p []byte) (err error) {
	if s.file == nil {
		s.memory = append(s.memory, p...)
	} else {
		_, err = s.file.Write(p)
	}
	if err == nil {
		s.n += int64(len(p))
	}
	return err
}

// readAt fills p from an offset.
func (s *spill) readAt(p []byte, offset int64) error {
	if s.file == nil {
		copy(p, s.memory[offset:])
		return nil
	}
	_, err := s.file.ReadAt(p, offset)
	return err
}

// close removes the file.
func (s *spill) close() error {
	if s.file == nil {
		return nil
	}
	return errors.Join(s.file.Close(), os.Remove(s.file.Name()))
}
