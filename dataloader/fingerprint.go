package dataloader

import "math"

// Fingerprinter is a dataset that knows what it consists of: names, sizes and counts of its files.
type Fingerprinter interface {
	// Fingerprint returns a number that differs, as good as always, if the data differ.
	Fingerprint() uint64
}

// Fingerprint returns a number that identifies ds by the number of its samples, its fields, and what
// [Fingerprinter] adds. Two datasets with different ones differ; two with the same one are the same as
// far as that shows, since samples are not read. It is never 0. Datasets of this package that wrap
// others add what they do to the fingerprint of these; a function, as of [Map], does not count.
func Fingerprint(ds Dataset) uint64 {
	h := hash(domainFingerprint, uint64(ds.Len()))
	for _, f := range ds.Fields() {
		h = hashText(h, f.Name)
		scale, shift := decoding(f)
		h = hash(h, uint64(f.Type), math.Float64bits(scale), math.Float64bits(shift), uint64(len(f.Shape)))
		for _, d := range f.Shape {
			h = hash(h, uint64(d))
		}
	}
	if f, ok := ds.(Fingerprinter); ok {
		h = hash(h, f.Fingerprint())
	}
	return max(1, h)
}

// hash mixes numbers into a hash.
func hash(h uint64, all ...uint64) uint64 {
	for _, x := range all {
		h = mix(h ^ mix(x))
	}
	return h
}

// hashText mixes a text into a hash.
func hashText(h uint64, s string) uint64 {
	h = hash(h, uint64(len(s)))
	for i := range len(s) {
		h = mix(h ^ uint64(s[i]))
	}
	return h
}

// Fingerprint implements Fingerprinter.
func (s *subset) Fingerprint() uint64 {
	return hash(Fingerprint(s.Dataset), uint64(s.from), uint64(s.n))
}

// Fingerprint implements Fingerprinter.
func (m *mapped) Fingerprint() uint64 { return Fingerprint(m.Dataset) }

// Fingerprint implements Fingerprinter.
func (s *selected) Fingerprint() uint64 {
	h := Fingerprint(s.Dataset)
	for _, k := range s.from {
		h = hash(h, uint64(k))
	}
	return h
}

// Fingerprint implements Fingerprinter.
func (b *blocks) Fingerprint() uint64 {
	h := uint64(0)
	for _, s := range b.starts {
		h = hash(h, uint64(s))
	}
	if f, ok := b.src.(Fingerprinter); ok {
		h = hash(h, f.Fingerprint())
	}
	return h
}
