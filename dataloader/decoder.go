package dataloader

// Decoder turns the encoded bytes of one field of a sample, such as a JPEG file, into the stored
// value of the field. Formats that carry encoded bytes, such as archives, take one for each field.
type Decoder interface {
	// Field returns the field that Decode writes, with the given name.
	Field(name string) Field
	// Decode writes the value of sample at to dst, which has exactly the bytes of the field. It must
	// be safe for concurrent use and must not keep encoded or dst. It must write the same whenever it
	// gets the same sample and bytes.
	Decode(at At, encoded, dst []byte) error
}
