//go:build gpu && cgo

package cuda

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"sync"
	"unsafe"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/group"
	"gorgonia.org/cu"
)

// Join joins the devices of a group by NCCL, and returns the group with which programs sum between
// the GPUs. All ranks call it at the same place in the order of operations, each on a GPU of its own.
// over carries the communicator's id, and all else that ranks need of each other; the caller closes
// it after the Comm. opt.Limit is the time that a device has for the collectives of a launch that all
// ranks have made, default group.DefaultLimit.
//
// If a rank has no NCCL (a *NoLibraryError on that rank), one before 2.14 or another than the rest,
// or shares its GPU, all ranks get a *JoinError and over still works. An error after that, such as a
// done ctx, breaks over. Strict is a *group.OpError: NCCL adds in an order of its own. Join computes a
// first sum, to see that it is right.
func (d *Device) Join(ctx context.Context, over group.Group, opt group.Options) (*Comm, error) {
	opt, err := opt.Check()
	if err == nil && opt.Strict {
		err = &group.OpError{Op: "join", Reason: "NCCL adds in an order of its own: leave Strict unset, or train without Join"}
	}
	if err != nil {
		return nil, err
	}
	if err := d.enter("join"); err != nil {
		return nil, err
	}
	defer d.leave()
	c := &Comm{Group: over, dev: d, limit: opt.Limit, quit: make(chan struct{}), aborted: make(chan struct{})}
	c.leave = sync.OnceFunc(func() { close(c.quit) })
	id, err := c.introduce(ctx)
	if err != nil {
		c.nccl.free()
		return nil, err
	}
	free, _, err := cu.MemInfo()
	if err == nil {
		err = c.open(ctx, id)
	}
	if err != nil {
		c.nccl.free()
		over.Abort(err)
		return nil, fmt.Errorf("cuda: join: %w", d.note(cmp.Or(over.Err(), err)))
	}
	d.keep(c)
	go c.watch()
	if err = c.try(); err == nil {
		err = c.count(free)
	}
	if err != nil {
		over.Abort(err)
		return nil, errors.Join(fmt.Errorf("cuda: join: %w", d.note(cmp.Or(over.Err(), err))), c.Close())
	}
	return c, nil
}

// introduce loads NCCL, compares all ranks, and returns the id of the communicator.
func (c *Comm) introduce(ctx context.Context) (id []byte, err error) {
	var own introduction
	problem := c.prepare(&own)
	if problem != nil {
		own.Error = problem.Error()
	}
	text, err := json.Marshal(own)
	if err != nil {
		return nil, err
	}
	texts, err := group.Exchange(ctx, c.Group, text)
	if err != nil {
		return nil, fmt.Errorf("cuda: join: %w", err)
	}
	all := make([]introduction, len(texts))
	for r, text := range texts {
		if err := json.Unmarshal(text, &all[r]); err != nil {
			return nil, fmt.Errorf("cuda: join: rank %d: %w", r, err)
		}
	}
	if e := compareIntroductions(all); e != nil {
		if slices.Contains(e.Ranks, c.Rank()) {
			e.Own = problem
		}
		return nil, e
	}
	c.code = own.Version
	return all[0].ID, nil
}

// prepare fills in what this rank tells the others.
func (c *Comm) prepare(own *introduction) (err error) {
	if c.nccl, err = openNCCL(); err != nil {
		return err
	}
	if own.Version, err = c.nccl.version(); err != nil {
		return err
	}
	if own.Version < leastNCCL {
		return errOldNCCL(own.Version)
	}
	gpu, err := uuid(c.dev.gpu)
	if err != nil {
		return err
	}
	host, _ := os.Hostname() // without a name, emulated GPUs of two hosts may look like one
	own.GPU = fmt.Sprintf("%s %x", host, gpu)
	if c.Rank() == 0 {
		own.ID, err = c.nccl.id()
	}
	return err
}

// open makes the communicator, and a stream and an event for it.
func (c *Comm) open(ctx context.Context, id []byte) (err error) {
	if err = c.nccl.init(c.Size(), c.Rank(), id); err == nil {
		err = c.settle("ncclCommInitRankConfig", func() error { return errors.Join(c.Group.Err(), context.Cause(ctx)) })
	}
	if err == nil {
		_, urgent, e := cu.StreamPriorityRange()
		c.stream, err = cu.MakeStreamWithPriority(urgent, cu.NonBlocking)
		err = errors.Join(fromCu("cuCtxGetStreamPriorityRange", e), fromCu("cuStreamCreateWithPriority", err))
	}
	if err == nil {
		c.tail, err = cu.MakeEvent(cu.DisableTiming)
		err = fromCu("cuEventCreate", err)
	}
	if err != nil {
		c.nccl.abort()
		if c.stream != cu.NoStream {
			_ = c.stream.Destroy()
		}
	}
	return err
}

// try computes a sum, with which NCCL connects the devices, and checks it.
func (c *Comm) try() error {
	const n = 64
	mem, err := cu.MemAlloc(4 * n)
	if err != nil {
		return fromCu("cuMemAlloc", err)
	}
	values := make([]float32, n)
	for i := range values {
		values[i] = float32((c.Rank() + 1) * (i + 1))
	}
	err = fromCu("cuMemcpyHtoD", cu.MemcpyHtoD(mem, unsafe.Pointer(&values[0]), 4*n))
	if err == nil {
		err = c.sum(mem, n)
	}
	if err == nil {
		err = fromCu("cuMemcpyDtoH", cu.MemcpyDtoH(unsafe.Pointer(&values[0]), mem, 4*n))
	}
	for i, v := range values {
		if want := float64(c.Size()*(c.Size()+1)/2) * float64(i+1); err == nil && math.Abs(float64(v)-want) > 1e-6*want {
			err = fmt.Errorf("NCCL %s sums wrongly: element %d is %v, not %v: run nccl-tests on these GPUs: %w", c.Version(), i, v, want, arena.ErrInvalid)
		}
	}
	return errors.Join(err, fromCu("cuMemFree", cu.MemFree(mem)))
}

// count adds the device memory that NCCL has taken, from free bytes on, to that outside of arenas.
func (c *Comm) count(free int64) error {
	left, _, err := cu.MemInfo()
	c.bytes = max(0, free-left)
	c.dev.before.Add(c.bytes)
	return fromCu("cuMemGetInfo", err)
}

// sum sums n numbers, and waits for them.
func (c *Comm) sum(at cu.DevicePtr, n int64) error {
	if err := c.lock(); err != nil {
		return err
	}
	x := collective{comm: c, kind: group.Sum, elem: arena.Float32, count: n, data: address(at), first: true, last: true}
	err := c.issue(&x, c.stream, "first sum")
	c.mu.Unlock()
	if err != nil {
		return err
	}
	if err := c.stream.Synchronize(); err != nil {
		return fromCu("cuStreamSynchronize", err)
	}
	return c.broken()
}
