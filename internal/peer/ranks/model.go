package main

import (
	"fmt"
	"math"
	"strings"
)

// link is the connection of two ranks. A message of n bytes takes latency + n/bandwidth.
type link struct {
	Name      string  `json:"name"`
	Latency   float64 `json:"latency"`   // s, of a message
	Bandwidth float64 `json:"bandwidth"` // bytes/s, in each direction
}

// algorithm is a way to sum over ranks.
type algorithm string

// The algorithms. In a ring each rank sends 2(P-1) parts of n/P bytes, one after the other. In a tree the
// whole sum goes up and down, in pieces, so that its depth costs latency only (a double binary tree:
// Sanders, Speck and Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", 2009).
const (
	ring algorithm = "ring"
	tree algorithm = "tree"
)

// seconds returns the time in which ranks sum n bytes.
func (a algorithm) seconds(l link, ranks int, n float64) float64 {
	p := float64(ranks)
	if ranks < 2 {
		return 0
	}
	if a == tree {
		return 2*math.Ceil(math.Log2(p))*l.Latency + 2*n/l.Bandwidth
	}
	return 2*(p-1)*l.Latency + 2*(p-1)/p*n/l.Bandwidth
}

// bucket is a sum over the ranks that compute does not wait for before the end of the backward pass.
type bucket struct {
	Bytes float64
	Ready float64 // s after the step began
}

// step is what one rank computes in a step.
type step struct {
	Compute  float64  // s of the whole step, without communication
	Backward float64  // s from its beginning to the end of the backward pass
	Buckets  []bucket // in the order in which they are sent
}

// even returns a step whose gradients, of a number of bytes, are ready evenly in the last two thirds of
// the time, in buckets of the given size.
func even(compute, bytes, size float64) step {
	s := step{Compute: compute, Backward: compute}
	n := max(1, math.Round(bytes/size))
	for i := 1.0; i <= n; i++ {
		s.Buckets = append(s.Buckets, bucket{bytes / n, compute * (1 + 2*i/n) / 3})
	}
	return s
}

// machine is what the ranks of a host share.
type machine struct {
	cores int  // that compute; 0: each rank has its own
	alone bool // communication has processors of its own, such as those of a network or of a GPU's copies
}

// predict returns the time of a step of a number of ranks, all of which have the same work, and the time
// of it in which they only communicate. Sums run one after the other; the last one, by which ranks
// agree, waits for all.
//
//	compute  │ forward │ backward … │            │ update │
//	sums               │ b0 │ b1 │ … │ last │ agree │
func (s step) predict(l link, a algorithm, ranks int, m machine) (total, exposed float64) {
	shared := 1.0 // ranks that take turns on a core
	if m.cores > 0 {
		shared = max(1, float64(ranks)/float64(m.cores))
	}
	agree := a.seconds(l, ranks, 4) * shared
	if !m.alone { // a sum takes the time of the core that would compute
		total = s.Compute*shared + agree
		for _, b := range s.Buckets {
			total += a.seconds(l, ranks, b.Bytes) * shared
		}
		return total, total - s.Compute*shared
	}
	end := 0.0
	for _, b := range s.Buckets {
		end = max(end, b.Ready*shared) + a.seconds(l, ranks, b.Bytes)*shared
	}
	total = max(end, s.Backward*shared) + agree + (s.Compute-s.Backward)*shared
	return total, total - s.Compute*shared
}

// bytes returns the bytes of all buckets.
func (s step) bytes() (n float64) {
	for _, b := range s.Buckets {
		n += b.Bytes
	}
	return n
}

// table returns the predicted times of 8 to 1,024 ranks, on links whose communication takes no time of
// the processors that compute.
func (s step) table(links []link) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Each rank computes %.4g ms a step, and sums %.4g MB in %d buckets.\n\n", 1e3*s.Compute, s.bytes()/1e6, len(s.Buckets))
	head, line := "| ranks |", "|---:|"
	for _, l := range links {
		for _, a := range []algorithm{ring, tree} {
			head, line = head+fmt.Sprintf(" %s, %s |", l.Name, a), line+"---:|"
		}
	}
	fmt.Fprintf(&b, "%s\n%s\n", head, line)
	for ranks := 8; ranks <= 1024; ranks *= 2 {
		fmt.Fprintf(&b, "| %d |", ranks)
		for _, l := range links {
			for _, a := range []algorithm{ring, tree} {
				total, exposed := s.predict(l, a, ranks, machine{alone: true})
				fmt.Fprintf(&b, " %.4g ms, %.0f %% |", 1e3*total, 100*exposed/total)
			}
		}
		fmt.Fprintln(&b)
	}
	return b.String()
}
