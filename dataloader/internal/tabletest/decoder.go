package tabletest

import (
	"bytes"
	"image/png"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
)

// Pixels is a decoder of PNG files of 4 × 4 pixels into their bytes, [4, 4, 3].
type Pixels struct{}

// Field implements dataloader.Decoder.
func (Pixels) Field(name string) dataloader.Field {
	return dataloader.Field{Name: name, Type: arena.Uint8, Shape: []int{4, 4, 3}}
}

// Decode implements dataloader.Decoder.
func (Pixels) Decode(_ dataloader.At, encoded, dst []byte) error {
	m, err := png.Decode(bytes.NewReader(encoded))
	if err != nil {
		return err
	}
	for i := range 16 {
		r, g, b, _ := m.At(i%4, i/4).RGBA()
		dst[3*i], dst[3*i+1], dst[3*i+2] = byte(r>>8), byte(g>>8), byte(b>>8)
	}
	return nil
}

// LastByte is a decoder that stores the last of the encoded bytes, and of no bytes nothing.
type LastByte struct{}

// Field implements dataloader.Decoder.
func (LastByte) Field(name string) dataloader.Field {
	return dataloader.Field{Name: name, Type: arena.Uint8}
}

// Decode implements dataloader.Decoder.
func (LastByte) Decode(_ dataloader.At, encoded, dst []byte) error {
	if len(encoded) > 0 {
		dst[0] = encoded[len(encoded)-1]
	}
	return nil
}
