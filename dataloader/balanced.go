package dataloader

import (
	"fmt"
	"slices"
	"sort"
)

// classLists holds the samples of each class. It costs 8 bytes a sample.
type classLists struct {
	labels  []int   // of the classes, in increasing order
	members [][]int // by class: its samples, in increasing order
}

// listClasses sorts samples by class.
func listClasses(labels []int) classLists {
	var c classLists
	where := map[int]int{}
	for _, y := range labels {
		where[y]++
	}
	for y := range where {
		c.labels = append(c.labels, y)
	}
	slices.Sort(c.labels)
	all := make([]int, len(labels))
	for k, y := range c.labels {
		c.members = append(c.members, all[:0:where[y]])
		all = all[where[y]:]
		where[y] = k
	}
	for i, y := range labels {
		k := where[y]
		c.members[k] = append(c.members[k], i)
	}
	return c
}

// hash returns a hash of the classes.
func (c *classLists) hash() uint64 {
	h := hash(domainClass, uint64(len(c.labels)))
	for k, y := range c.labels {
		h = hash(h, uint64(y), uint64(len(c.members[k])))
		for _, i := range c.members[k] {
			h = hash(h, uint64(i))
		}
	}
	return h
}

// classKey returns the key of a permutation. Parts are 0 for batches, 1 for the places in one, and
// 2 + k for the samples of class k.
func classKey(seed uint64, epoch int, part, number uint64) uint64 {
	return keyOf(domainClass, hash(seed, part), epoch, number)
}

// ClassBalanced returns a sampler that gives each class the same number of positions, whatever its
// number of samples. labels has the class of each sample. Of K classes, each K positions from a
// multiple of K on hold every class once, in a random order; the samples of a class come in a random
// order without repetition, until all have come, and then in another one. An epoch has count
// positions, 0: as many as labels; only the last few may lack a class. Any number is a class. The
// sampler keeps 8 bytes a sample.
func ClassBalanced(labels []int, count int) (Sampler, error) {
	if len(labels) == 0 {
		return nil, fmt.Errorf("class balanced: no labels: %w", ErrOption)
	}
	if count == 0 {
		count = len(labels)
	}
	if count < 0 || count > maxSamples {
		return nil, fmt.Errorf("class balanced: count %d: must be 0 (default) to %d: %w", count, maxSamples, ErrOption)
	}
	s := &balanced{classLists: listClasses(labels)}
	s.identity = identity{len(labels), count, s.hash()}
	return s, nil
}

type balanced struct {
	identity
	classLists
}

// Epoch implements Sampler.
func (s *balanced) Epoch(n int, seed uint64, epoch int) (Sequence, error) {
	if err := s.fits("labels", n); err != nil {
		return nil, err
	}
	return &balancedSequence{s, seed, epoch}, nil
}

type balancedSequence struct {
	*balanced
	seed  uint64
	epoch int
}

func (s *balancedSequence) Len() int { return s.Count }

func (s *balancedSequence) Index(position int) int {
	round, place := position/len(s.labels), position%len(s.labels)
	p := permute(len(s.labels), classKey(s.seed, s.epoch, 1, uint64(round)))
	k := p.at(place)
	members := s.members[k]
	p = permute(len(members), classKey(s.seed, s.epoch, uint64(k)+2, uint64(round/len(members))))
	return members[p.at(round%len(members))]
}

// Stratified returns a sampler that gives each batch the classes in the proportions of the dataset,
// exact to rounding. labels has the class of each sample, and batch is the size of a batch:
// Options.Batch times Options.Ranks. An epoch has every sample once, in a random order. Of a class,
// every full batch has the same number of samples or one more, and the last, short batch has its share
// rounded down or up. With DropTail the samples of the last batch are others in each epoch. The
// sampler keeps 8 bytes a sample; a position costs time in proportion to the number of classes.
func Stratified(labels []int, batch int) (Sampler, error) {
	if len(labels) == 0 || batch < 1 || batch > len(labels) {
		return nil, fmt.Errorf("stratified: batch %d of %d labels: must be 1 to the number of labels: %w", batch, len(labels), ErrOption)
	}
	s := &stratified{classLists: listClasses(labels), batch: batch, full: len(labels) / batch}
	s.identity = identity{len(labels), len(labels), hash(s.hash(), uint64(batch))}
	sizes := make([]int, len(s.members))
	for k, m := range s.members {
		sizes[k] = len(m)
	}
	s.tail = shareOut(len(labels)%batch, sizes)
	extra := 0
	for k, n := range sizes {
		n -= s.tail[k]
		s.base = append(s.base, n/s.full)
		s.first = append(s.first, extra%s.full)
		s.extra = append(s.extra, n%s.full)
		extra += n % s.full
	}
	return s, nil
}

// shareOut divides count into parts in proportion to sizes, each rounded down or up: the largest
// remainders are rounded up. count is at most the sum of sizes.
func shareOut(count int, sizes []int) []int {
	sum := 0
	for _, n := range sizes {
		sum += n
	}
	parts, order := make([]int, len(sizes)), make([]int, len(sizes))
	rest := make([]uint64, len(sizes))
	left := count
	for k, n := range sizes {
		q, r := mulDiv(uint64(count), uint64(n), uint64(sum))
		parts[k], rest[k], order[k] = int(q), r, k
		left -= parts[k]
	}
	sort.SliceStable(order, func(i, j int) bool { return rest[order[i]] > rest[order[j]] })
	for _, k := range order[:left] {
		parts[k]++
	}
	return parts
}

// stratified deals the samples of each class to the full batches. Class k has base[k] of each, and
// one more in the extra[k] batches from first[k] on, in a circle. The next class goes on where it
// ends, so that all batches have equally many (McNaughton's wrap-around rule):
//
//	batch      0 1 2 3 4
//	class 0    x x x . .
//	class 1    x . . x x
type stratified struct {
	identity
	classLists
	batch, full        int
	base, first, extra []int
	tail               []int // samples of each class in the last, short batch
}

// before returns how many samples of class k the batches before b have.
func (s *stratified) before(k, b int) int {
	n := b * s.base[k]
	end := s.first[k] + s.extra[k]
	n += max(0, min(b, end)-s.first[k])
	return n + max(0, min(b, end-s.full))
}

// Epoch implements Sampler.
func (s *stratified) Epoch(n int, seed uint64, epoch int) (Sequence, error) {
	if err := s.fits("labels", n); err != nil {
		return nil, err
	}
	return &stratifiedSequence{s, seed, epoch, permute(s.full, classKey(seed, epoch, 0, 0))}, nil
}

type stratifiedSequence struct {
	*stratified
	seed    uint64
	epoch   int
	batches permutation
}

func (s *stratifiedSequence) Len() int { return s.Count }

func (s *stratifiedSequence) Index(position int) int {
	b, place := position/s.batch, position%s.batch
	row, size := s.full, s.Samples%s.batch
	if b < s.full {
		row, size = s.batches.at(b), s.batch
	}
	p := permute(size, classKey(s.seed, s.epoch, 1, uint64(b)))
	place = p.at(place)
	for k, members := range s.members {
		from := s.before(k, row)
		count := s.tail[k]
		if row < s.full {
			count = s.before(k, row+1) - from
		}
		if place < count {
			p := permute(len(members), classKey(s.seed, s.epoch, uint64(k)+2, 0))
			return members[p.at(from+place)]
		}
		place -= count
	}
	return -1 // the counts of a batch sum to its size
}
