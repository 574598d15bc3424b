package dataloader

import (
	"math/bits"
	"math/rand/v2"
)

// At identifies a sample in an epoch. Fetch must write the same contents whenever it gets the same
// At.
type At struct {
	Index int    // index of the sample, from 0
	Epoch int    // number of the epoch, from 0
	Seed  uint64 // Options.Seed of the loader; Map derives another one from it for the dataset that it wraps
}

// Rand returns a generator of random numbers that depend only on the seed, the epoch and the index.
// Each [Map] in a chain gets an At whose Rand has a sequence of its own. Rand allocates nothing.
func (a At) Rand() Rand {
	return Rand{generator(domainSample, a.Seed, uint64(a.Epoch), uint64(a.Index))}
}

// Rand is a generator of random numbers that allocates nothing. A pointer to it is also a
// rand.Source: rand.New(&r) has more methods.
type Rand struct{ rand.PCG }

// Float64 returns a number in [0, 1).
func (r *Rand) Float64() float64 { return float64(r.Uint64()>>11) / (1 << 53) }

// IntN returns a uniform number in [0, n), or 0 for n < 1.
func (r *Rand) IntN(n int) int {
	if n < 1 {
		return 0
	}
	return int(below(&r.PCG, uint64(n)))
}

// Each purpose has a domain of its own, so that its draws are independent of the others.
const (
	domainSample  = 0x73616d706c650000
	domainShuffle = 0x73687566666c6500
	domainMap     = 0x6d61700000000000

	domainFingerprint = 0x66696e6765720000
)

// mix is the finalizer of splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number
// Generators, OOPSLA 2014): a bijection in which every input bit reaches every output bit.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// generator returns a PCG-DXSM generator. Two hash chains make all 128 bits of its key depend on
// all four words.
func generator(domain, seed, epoch, index uint64) rand.PCG {
	hi, lo := mix(domain^mix(seed)), mix(^domain^mix(seed+1))
	hi, lo = mix(hi^epoch), mix(lo+epoch)
	hi, lo = mix(hi^index), mix(lo+index)
	return *rand.NewPCG(hi, lo)
}

// keyOf returns the first draw of a generator: the key of a permutation. part numbers the permutations
// of an epoch.
func keyOf(domain, seed uint64, epoch int, part uint64) uint64 {
	g := generator(domain, seed, uint64(epoch), part)
	return g.Uint64()
}

// below returns a number in [0, n) without bias. Source: Lemire, Fast Random Integer Generation in
// an Interval, ACM TOMACS 29(1), 2019, algorithm 5.
func below(p *rand.PCG, n uint64) uint64 {
	hi, lo := bits.Mul64(p.Uint64(), n)
	if lo < n {
		for least := -n % n; lo < least; {
			hi, lo = bits.Mul64(p.Uint64(), n)
		}
	}
	return hi
}
