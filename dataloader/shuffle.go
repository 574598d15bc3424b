package dataloader

import (
	"math/bits"
	"math/rand/v2"
)

// At says which sample is wanted, and when: all that its contents may depend on.
type At struct {
	Index int    // of the sample, 0-based
	Epoch int    // 0-based
	Seed  uint64 // of the loader
}

// Rand returns a generator that is a function of the seed, the epoch and the index alone. It allocates nothing.
func (a At) Rand() Rand {
	return Rand{generator(domainSample, a.Seed, uint64(a.Epoch), uint64(a.Index))}
}

// Rand is a source of random numbers that needs no memory of its own. A pointer to it is a rand.Source, for
// rand.New where more than these methods is wanted.
type Rand struct{ rand.PCG }

// Float64 returns a number in [0, 1).
func (r *Rand) Float64() float64 { return float64(r.Uint64()>>11) / (1 << 53) }

// IntN returns a number in [0, n), each equally likely, and 0 for n < 1.
func (r *Rand) IntN(n int) int {
	if n < 1 {
		return 0
	}
	return int(below(&r.PCG, uint64(n)))
}

// One domain a purpose, so that the draws of one never equal those of another.
const (
	domainSample  = 0x73616d706c650000
	domainShuffle = 0x73687566666c6500
	domainMap     = 0x6d61700000000000
)

// mix is the finalizer of splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA
// 2014): a bijection in which every input bit reaches every output bit.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// generator keys PCG-DXSM with two hash chains, so that 128 bits depend on all four words.
func generator(domain, seed, epoch, index uint64) rand.PCG {
	hi, lo := mix(domain^mix(seed)), mix(^domain^mix(seed+1))
	hi, lo = mix(hi^epoch), mix(lo+epoch)
	hi, lo = mix(hi^index), mix(lo+index)
	return *rand.NewPCG(hi, lo)
}

// below returns a number in [0, n) without bias. Source: Lemire, Fast Random Integer Generation in an Interval,
// ACM TOMACS 29(1), 2019, algorithm 5.
func below(p *rand.PCG, n uint64) uint64 {
	hi, lo := bits.Mul64(p.Uint64(), n)
	if lo < n {
		for least := -n % n; lo < least; {
			hi, lo = bits.Mul64(p.Uint64(), n)
		}
	}
	return hi
}

// identity fills order with 0, 1, 2, …
func identity(order []int32) {
	for i := range order {
		order[i] = int32(i)
	}
}

// shuffle fills order with a permutation that depends on seed, epoch and the length alone. Fisher–Yates, from the end.
func shuffle(order []int32, seed uint64, epoch int) {
	identity(order)
	p := generator(domainShuffle, seed, uint64(epoch), 0)
	for i := len(order) - 1; i > 0; i-- {
		j := below(&p, uint64(i+1))
		order[i], order[j] = order[j], order[i]
	}
}
