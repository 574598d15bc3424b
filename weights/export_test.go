package weights

import (
	"context"

	"github.com/evenkeel/evenkeel/internal/atomicfile"
	"github.com/evenkeel/evenkeel/weights/safetensors"
)

// TensorReader is what weights are loaded from.
type TensorReader interface {
	Tensors() []safetensors.Tensor
	ReadAt(name string, dst []byte, offset int64) error
}

// LoadFrom is Load from any reader.
func LoadFrom(ctx context.Context, from TensorReader, to Target, opt LoadOptions) (Report, error) {
	return load(ctx, from, "reader", to, &opt)
}

// WithMemory returns options that keep so many bytes of former values in memory.
func (o LoadOptions) WithMemory(bytes int64) LoadOptions {
	o.memory = bytes
	return o
}

// WithFiles returns options with another file system.
func (o SaveOptions) WithFiles(files atomicfile.FS) SaveOptions {
	o.files = files
	return o
}

// BufferBytes is the size of a piece.
const BufferBytes = bufferBytes

var (
	Convert   = convert
	NotFinite = notFinite
	Matches   = matches
)
