//go:build mpi && unix && cgo

package mpi

import (
	"fmt"
	"slices"
	"time"

	"github.com/evenkeel/evenkeel/group"
)

// look returns why the group is broken if another rank of this host left a last word, or has ended.
// During an operation, a rank that has completed it is not missed.
func (c *comm) look(during bool) *group.RankError {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watch.poll()
	for i := range c.peers {
		p := &c.peers[i]
		dead := c.watch.ended(i) // before its last word, which it may write meanwhile
		if e := p.page.word(); e != nil {
			return e
		}
		if !dead || during && p.page.completed.Load() >= c.m.own.page.entered.Load() {
			continue
		}
		cause := fmt.Sprintf("its process %d ended", p.pid)
		if doing := text(p.page.doing[:]); p.page.busy.Load() > 0 && doing != "" {
			cause += " while it was busy: " + doing
		}
		return &group.RankError{Rank: p.rank, Ranks: []int{p.rank}, Op: c.m.waiting(), Err: group.ErrDied, Cause: cause}
	}
	return nil
}

// allClose reports whether all other ranks of this host close, or have ended.
func (c *comm) allClose() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watch.poll()
	for i := range c.peers {
		if c.peers[i].page.closing.Load() == 0 && !c.watch.ended(i) {
			return false
		}
	}
	return true
}

// overdue counts the time since the last look, unless a rank is busy. When the limit has passed, it
// returns the ranks of this host that did not come: those that have not entered the operation, or
// that show no sign of life in it.
func (c *comm) overdue(now time.Time) *[]int {
	own := c.m.own.page
	busy := own.busy.Load() > 0
	for i := range c.peers {
		p := &c.peers[i]
		busy = busy || p.page.busy.Load() > 0
		if beat := p.page.beat.Load(); beat != p.beat || p.seen.IsZero() {
			p.beat, p.seen = beat, now
		}
	}
	if !busy {
		c.spent += min(now.Sub(c.last), maxStep)
	}
	c.last = now
	if c.spent < c.m.opt.Limit {
		return nil
	}
	late := []int{}
	for i := range c.peers {
		p := &c.peers[i]
		absent := p.page.entered.Load() < own.entered.Load()
		silent := p.page.completed.Load() < own.entered.Load() && now.Sub(p.seen) >= c.m.opt.Limit/2
		if absent || silent {
			late = append(late, p.rank)
		}
	}
	slices.Sort(late)
	return &late
}
