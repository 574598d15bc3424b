package tokens

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/atomicfile"
)

// Write writes the tokens of sequences, one after another, as Open reads them: numbers of bits bits,
// 16 or 32; 0: 16. [dataloader.Tokenize] makes sequences of texts. The file appears under its name
// when it is complete and on the disk; after an error, what was there stays. A token that the bits
// do not hold is an error that wraps dataloader.ErrOption.
func Write(path string, s *dataloader.Sequences, bits int) (err error) {
	if bits == 0 {
		bits = defaultBits
	}
	if bits != 16 && bits != 32 {
		return fmt.Errorf("%s: tokens of %d bits: must be 16 or 32: %w", path, bits, dataloader.ErrOption)
	}
	if s == nil {
		return fmt.Errorf("%s: no sequences: %w", path, dataloader.ErrOption)
	}
	if f := s.Field(); f.Type != arena.Int32 || len(f.Shape) > 0 {
		return &dataloader.FieldError{Name: f.Name, Problem: fmt.Sprintf("elements of %v %v: tokens are int32", f.Type, f.Shape)}
	}
	file, err := atomicfile.Create(nil, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	most := int32(math.MaxInt32)
	if bits == 16 {
		most = math.MaxUint16
	}
	w := bufio.NewWriterSize(file, 1<<16)
	var number [4]byte
	for i := range s.Len() {
		for at, t := range dataloader.View[int32](s.Elements(i)) {
			if t < 0 || t > most {
				return fmt.Errorf("%s: token %d of sequence %d is %d, and %d bits hold 0 to %d: %w", path, at, i, t, bits, most, dataloader.ErrOption)
			}
			binary.LittleEndian.PutUint32(number[:], uint32(t))
			if _, err := w.Write(number[:bits/8]); err != nil {
				return err
			}
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return file.Commit()
}
