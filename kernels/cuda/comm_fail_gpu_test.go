//go:build gpu && cgo

package cuda

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/group"
	"github.com/evenkeel/evenkeel/internal/fakecuda"
)

// joinAll lets n ranks join, on the devices given, and returns their errors.
func joinAll(t *testing.T, on []int, ctx func(rank int) context.Context) (errs []error, groups []group.Group) {
	t.Helper()
	emulated(t)
	setting(t, "devices", 2, 1)
	fakecuda.Forget()
	groups, err := group.Local(len(on), group.Options{Limit: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, g := range groups {
			_ = g.Close()
		}
	})
	devices := map[int]*Device{}
	for _, k := range on {
		if devices[k] == nil {
			devices[k] = opened(t, Options{Device: k})
		}
	}
	errs = make([]error, len(on))
	var wg sync.WaitGroup
	for r, g := range groups {
		wg.Go(func() {
			var c *Comm
			if c, errs[r] = devices[on[r]].Join(ctx(r), g, group.Options{Limit: 20 * time.Second}); errs[r] == nil {
				_ = c.Close()
			}
		})
	}
	wg.Wait()
	return errs, groups
}

func anyContext(t *testing.T) func(int) context.Context {
	return func(int) context.Context { return t.Context() }
}

// Where a rank cannot take part, all ranks get the same error, which names it and says what to do, and
// the group still works.
func TestARankThatCannotJoinIsNamedByAll(t *testing.T) {
	emulated(t)
	for want, c := range map[string]struct {
		on  []int
		set func(t *testing.T)
	}{
		"ranks 0 1: they share a GPU: open another one on each": {on: []int{0, 0}},
		"rank 0: NCCL is 2.12.12: it must be 2.14.0 or newer":   {on: []int{0, 1}, set: func(t *testing.T) { setting(t, "nccl_version", 21212, 22703) }},
		"rank 0: NCCL was not found: looked for libnone.so.2": {on: []int{0, 1}, set: func(t *testing.T) {
			old := ncclNames
			ncclNames = []string{"libnone.so.2"}
			t.Cleanup(func() { ncclNames = old })
		}},
		"rank 0: ncclGetUniqueId: unhandled system error (2)": {on: []int{0, 1}, set: func(t *testing.T) { inject(t, "ncclGetUniqueId", 1, 2) }},
	} {
		t.Run(want, func(t *testing.T) {
			if c.set != nil {
				c.set(t)
			}
			errs, groups := joinAll(t, c.on, anyContext(t))
			for r, err := range errs {
				var e *JoinError
				if !errors.As(err, &e) || !errors.Is(err, arena.ErrOption) || !strings.Contains(err.Error(), want) {
					t.Errorf("rank %d: got %v, want a JoinError with %q", r, err, want)
				}
			}
			var missing *NoLibraryError
			if strings.Contains(want, "libnone") && !errors.As(errs[0], &missing) {
				t.Errorf("rank 0: got %v, want one that wraps the NoLibraryError", errs[0])
			}
			for _, g := range groups {
				if g.Err() != nil {
					t.Errorf("the group is broken: %v", g.Err())
				}
			}
			quiet(t)
		})
	}
}

// inject makes a call fail, and takes faults back at the end.
func inject(t *testing.T, call string, n uint64, code int) {
	t.Helper()
	if err := fakecuda.Fail(call, n, code); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = fakecuda.Fail("", 0, 0) })
}

// An error of one rank while NCCL joins ends the call of all ranks, which name it.
func TestAnErrorWhileJoiningEndsAll(t *testing.T) {
	emulated(t)
	for call, named := range map[string]string{"ncclCommInitRankConfig": "ncclCommInitRankConfig", "ncclCommGetAsyncError": "ncclCommInitRankConfig",
		"ncclAllReduce": "ncclAllReduce", "ncclGroupEnd": "ncclGroupEnd"} {
		t.Run(call, func(t *testing.T) {
			inject(t, call, 1, 3)
			errs, _ := joinAll(t, []int{0, 1}, anyContext(t))
			for r, err := range errs {
				var e *group.RankError
				if !errors.As(err, &e) || !errors.Is(err, group.ErrAborted) || !strings.Contains(err.Error(), named) || !strings.Contains(err.Error(), "internal error (3)") {
					t.Errorf("rank %d: got %v, want a RankError that names %s", r, err, named)
				}
			}
		})
	}
	t.Run("a done context", func(t *testing.T) {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		errs, _ := joinAll(t, []int{0, 1}, func(r int) context.Context {
			if r == 1 {
				return ended
			}
			return t.Context()
		})
		for r, err := range errs {
			if !errors.Is(err, group.ErrAborted) {
				t.Errorf("rank %d: got %v, want one that wraps ErrAborted", r, err)
			}
		}
	})
	t.Run("strict", func(t *testing.T) {
		d := opened(t, Options{})
		_, err := d.Join(t.Context(), nil, group.Options{Strict: true})
		if !errors.Is(err, arena.ErrOption) || !strings.Contains(err.Error(), "leave Strict unset") {
			t.Errorf("got %v, want an error of options", err)
		}
	})
}

// What breaks a step between ranks is found by the group before a device waits, by NCCL, or by the
// limit: all ranks get the *RankError, and nothing waits for ever.
func TestABrokenStepEndsOnAllRanks(t *testing.T) {
	const limit = 300 * time.Millisecond
	for name, c := range map[string]struct {
		before func(t *testing.T)              // joins
		step   func(p *peer, x *sumStep) error // of each rank
		class  error                           // of the RankError
		text   string                          // of the errors
		report string                          // of the driver; "": none
	}{
		"a rank that does not come": {class: group.ErrStuck, text: "rank 1: is stuck in barrier", step: func(p *peer, x *sumStep) error {
			for p.Rank() == 1 && p.Err() == nil {
				time.Sleep(time.Millisecond)
			}
			return x.step(1, 1, 0)
		}},
		"a rank that gives up": {class: group.ErrAborted, text: "rank 1: gave up", step: func(p *peer, x *sumStep) error {
			if p.Rank() == 1 {
				p.Abort(errors.New("no more"))
			}
			return x.step(1, 1, 0)
		}},
		"other programs": {class: group.ErrMismatch, text: "launch of 3 collectives", step: func(p *peer, _ *sumStep) error {
			calls := sumCalls(p.Comm)
			if p.Rank() == 1 {
				calls = slices.Delete(calls, 3, 4) // a sum
			}
			x, err := p.bindSums(calls)
			return errors.Join(err, x.step(1, 1, 0), x.Close())
		}},
		"other collectives": {class: group.ErrAborted, text: "ranks run different collectives", report: "nccl: mismatch: rank", step: func(p *peer, x *sumStep) error {
			return errors.Join(p.Enqueue(p.s, Collective{Kind: group.Sum, Type: arena.Float32, Data: arena.Span{Memory: x.mem.Memory, Size: 4 + 4*int64(p.Rank())}}), p.waited())
		}},
		"a collective that is lost": {class: group.ErrAborted, text: "NCCL has not ended it within 300ms", report: "nccl: hang: rank", step: func(p *peer, x *sumStep) error {
			if p.Rank() == 1 { // its device does nothing
				return errors.Join(p.waited())
			}
			e, err := p.d.NewEvent()
			if err == nil {
				err = errors.Join(p.Enqueue(p.s, Collective{Kind: group.Sum, Type: arena.Float32, Data: arena.Span{Memory: x.mem.Memory, Size: 4}}), p.s.Record(e))
			}
			if err != nil {
				return err
			}
			stream, event := p.s.Sync(), e.Sync()
			if !errors.Is(stream, group.ErrAborted) || !errors.Is(event, group.ErrAborted) {
				t.Errorf("a collective was aborted: its stream has %v, an event after it %v", stream, event)
			}
			return errors.Join(stream, p.waited(), e.Close())
		}},
		"NCCL fails later": {class: group.ErrAborted, text: "remote process exited", step: func(p *peer, x *sumStep) error {
			if p.Rank() == 1 {
				if err := fakecuda.Fail("ncclCommGetAsyncError", 1, 6); err != nil {
					return err
				}
			}
			return errors.Join(p.waited(), x.step(1, 1, 0))
		}},
		"a fatal error of a device": {class: group.ErrAborted, text: "CUDA_ERROR_LAUNCH_FAILED", step: func(p *peer, x *sumStep) error {
			if p.Rank() == 1 {
				p.d.note(newDriverError("cuStreamSynchronize", 719))
			}
			return errors.Join(p.waited(), x.step(1, 1, 0))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			emulated(t)
			setting(t, "nccl_hang_ms", 100, 5000)
			for mode, o := range map[string]Options{"graphs": {}, "launches": {Graphs: Never}} {
				t.Run(mode, func(t *testing.T) {
					brokenStep(t, o, limit, c.step, c.class, c.text)
					found := false
					for _, r := range fakecuda.Reports() {
						if c.report != "" && strings.HasPrefix(r, c.report) {
							found = true
						} else if c.report == "" {
							t.Error(r)
						}
					}
					if !found && c.report != "" {
						t.Errorf("the driver reports nothing that begins with %q", c.report)
					}
					fakecuda.Forget()
				})
			}
		})
	}
}

// waited waits until the group is broken, and returns what the stream says then.
func (p *peer) waited() error {
	for begin := time.Now(); p.broken() == nil; time.Sleep(time.Millisecond) {
		if time.Since(begin) > 20*time.Second {
			return errors.New("the group does not break")
		}
	}
	return errors.Join(p.Err(), p.s.Sync())
}

func brokenStep(t *testing.T, o Options, limit time.Duration, step func(*peer, *sumStep) error, class error, text string) {
	t.Helper()
	errs := make([]error, 2)
	joined(t, 2, o, limit, func(p *peer) error {
		x, err := p.bindSums(sumCalls(p.Comm))
		if err != nil {
			return err
		}
		if err := group.Once(p, group.Op{Kind: group.Barrier}); err != nil {
			return err
		}
		errs[p.Rank()] = step(p, x)
		if err := p.waited(); !errors.Is(err, class) {
			t.Errorf("rank %d: the stream has %v", p.Rank(), err)
		}
		return x.Close()
	})
	for r, err := range errs {
		var e *group.RankError
		if !errors.As(err, &e) || !errors.Is(err, class) || !strings.Contains(err.Error(), text) {
			t.Errorf("rank %d: got %v, want a RankError with %q", r, err, text)
		}
	}
}

// alone is a group of processes without anything that carries it.
type alone struct {
	group.Group
	rank int
	mu   sync.Mutex
	err  error
}

func (a *alone) Rank() int      { return a.rank }
func (a *alone) Size() int      { return 2 }
func (a *alone) String() string { return "nothing" }
func (a *alone) Abort(cause error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err == nil {
		a.err = cause
	}
}
func (a *alone) Err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// processVariable makes the test binary a rank of another process: it holds the id of a communicator.
const processVariable = "EVENKEEL_NCCL_ID"

// aloneJoined is Join without a group that carries it.
func aloneJoined(d *Device, rank int, id []byte) (c *Comm, err error) {
	c = &Comm{Group: &alone{rank: rank}, dev: d, limit: 20 * time.Second, quit: make(chan struct{}), aborted: make(chan struct{})}
	c.leave = sync.OnceFunc(func() { close(c.quit) })
	if c.nccl, err = openNCCL(); err != nil {
		return nil, err
	}
	if err := d.enter("join"); err != nil {
		return nil, err
	}
	defer d.leave()
	if err := c.open(context.Background(), id); err != nil {
		return nil, err
	}
	d.keep(c)
	go c.watch()
	return c, c.try()
}

// Ranks of two processes sum; when one is killed, the device of the other waits no more.
func TestRanksOfSeveralProcesses(t *testing.T) {
	if id := os.Getenv(processVariable); id != "" {
		otherProcess(t, id)
		return
	}
	emulated(t)
	setting(t, "devices", 2, 1)
	fakecuda.Forget()
	d := opened(t, Options{})
	n, err := openNCCL()
	if err != nil {
		t.Fatal(err)
	}
	defer n.free()
	id, err := n.id()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestRanksOfSeveralProcesses$")
	cmd.Env = append(os.Environ(), processVariable+"="+hex.EncodeToString(id), "FAKECUDA_DEVICES=2")
	out := &strings.Builder{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	c, err := aloneJoined(d, 0, id) // which checks a first sum
	if err != nil {
		t.Fatal(err, out)
	}
	s, err := d.NewStream("test")
	if err != nil {
		t.Fatal(err)
	}
	mem, err := d.Alloc(4)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Enqueue(s, Collective{Kind: group.Sum, Type: arena.Int32, Data: arena.Span{Memory: mem, Size: 4}}); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil { // the other one does not enqueue it
		t.Fatal(err)
	}
	var e *NCCLError
	if err := s.Sync(); !errors.As(err, &e) || e.Code != 6 || !strings.Contains(err.Error(), "process of rank 1 has ended") {
		t.Errorf("got %v, want NCCL's error of a remote process", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir("/dev/shm"); slices.ContainsFunc(left, func(f os.DirEntry) bool { return f.Name() == fmt.Sprint(strings.TrimRight(string(id[9:]), "\x00")) }) {
		t.Error("a file of the communicator is left")
	}
}

func otherProcess(t *testing.T, id string) {
	bytes, err := hex.DecodeString(id)
	if err != nil {
		t.Fatal(err)
	}
	d := opened(t, Options{Device: 1})
	if _, err := aloneJoined(d, 1, bytes); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Minute) // until it is killed
}
