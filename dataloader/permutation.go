package dataloader

import (
	"math"
	"math/bits"
)

// permutation is a computed permutation of [0, n): it needs no memory for its elements. It is a
// Feistel network over pairs (l, r) with l < a and r < b, where a·b is the smallest such product
// from n on that is nearly square. What it maps outside of [0, n) it maps again (cycle walking).
// Source: Black and Rogaway, Ciphers with Arbitrary Finite Domains, CT-RSA 2002, section 5, with
// the hash of [permutation.round] instead of a cipher.
type permutation struct {
	n, a, b uint64
	key     uint64
	rounds  uint64 // pairs of rounds
}

// A network of few elements has few functions in each round, so that it needs more rounds until all
// orders are equally likely.
const (
	fewElements = 1 << 12
	roundsOfFew = 16 // pairs
	roundsOfAll = 4  // pairs
)

// permute returns the permutation of [0, n) for a key. n is 1 or more.
func permute(n int, key uint64) permutation {
	p := permutation{n: uint64(n), key: key, rounds: roundsOfAll}
	if n < fewElements {
		p.rounds = roundsOfFew
	}
	p.a = max(2, uint64(math.Sqrt(float64(n)))) // within 1 of the root; with 1 all orders would be rotations
	p.b = (p.n + p.a - 1) / p.a
	return p
}

// at returns element i of the permutation, for i in [0, n).
func (p *permutation) at(i int) int {
	x := uint64(i)
	for {
		l, r := x/p.b, x%p.b
		key := p.key
		for range p.rounds {
			key += 0x9e3779b97f4a7c15
			if l += round(r, key, p.a); l >= p.a {
				l -= p.a
			}
			key += 0x9e3779b97f4a7c15
			if r += round(l, key, p.b); r >= p.b {
				r -= p.b
			}
		}
		// a·b exceeds n by less than a, so that a second round is rare.
		if x = l*p.b + r; x < p.n {
			return int(x)
		}
	}
}

// round returns a number in [0, m) that depends on x and key.
func round(x, key, m uint64) uint64 {
	x = (x ^ key) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>32) * 0x94d049bb133111eb
	h, _ := bits.Mul64(x^x>>29, m)
	return h
}
