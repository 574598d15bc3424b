package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/evenkeel/evenkeel/group"
	"github.com/evenkeel/evenkeel/trainer"
)

func TestRanksOfAHostHavePlacesInTheirOrder(t *testing.T) {
	groups, err := group.Local(3, group.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for _, g := range groups {
		all.Go(func() {
			if n, err := placeOnHost(t.Context(), g); err != nil || n != g.Rank() {
				t.Errorf("rank %d: place %d, %v", g.Rank(), n, err)
			}
			if err := g.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// With -resume the other ranks open the folder after the first one has made it.
func TestRanksResumeFromAFolderThatIsMade(t *testing.T) {
	t.Parallel()
	for i := range 10 {
		dir := filepath.Join(t.TempDir(), fmt.Sprint(i))
		if err := line.Run(t.Context(), []string{"-epochs", "1", "-ranks", "3", "-checkpoint", dir, "-resume"}, io.Discard); err != nil {
			t.Fatal(err)
		}
	}
	if err := line.Run(t.Context(), []string{"-epochs", "1", "-ranks", "3", "-checkpoint", "/dev/null", "-resume"}, io.Discard); err == nil {
		t.Error("a folder that cannot be made is no error")
	}
}

// Stop on the page of the first rank, and an interrupt with checkpoints, end all ranks after the same step, and leave their group whole.
func TestAStopEndsAllRanksCleanly(t *testing.T) {
	t.Parallel()
	for _, share := range []string{"none", "state"} {
		for _, c := range []struct {
			page, checkpoints bool
			says              string
		}{{true, false, "stopped on its page after step"}, {true, true, "stopped after step"}, {false, true, "stopped after step"}} {
			args := []string{"-epochs", "20000", "-ranks", "2", "-batch", "2"}
			if share != "none" {
				args = append(args, "-shard", share)
			}
			if c.page {
				args = append(args, "-serve", "127.0.0.1:0")
			}
			if c.checkpoints {
				args = append(args, "-checkpoint", filepath.Join(t.TempDir(), "c"), "-every", "1h")
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			out, e, done := &output{}, line, false
			e.Progress = func(p trainer.Progress) {
				switch {
				case p.StepNumber != 3 || done:
				case c.page:
					done = true
					press(t, out, "stop")
				default:
					done = true
					cancel()
				}
			}
			if err := e.Run(ctx, args, out); err != nil || strings.Count(out.String(), "stopped") != 1 || !strings.Contains(out.String(), c.says) {
				t.Errorf("%q: %v\n%s", args, err, out)
			}
		}
	}
}

// A rank that has an error is not hidden by the stop of others.
func TestAStopHidesNoError(t *testing.T) {
	t.Parallel()
	own, ended := errors.New("own"), &group.RankError{Err: group.ErrAborted}
	for _, c := range []struct{ errs, want []error }{
		{errs: []error{ErrStopped, ErrStopped}},
		{errs: []error{ErrStopped, own, ended}, want: []error{own}},
		{errs: []error{ErrStopped, ended}, want: []error{group.ErrAborted}},
	} {
		err := unlessStopped(each(make([]member, len(c.errs)), func(i int) error { return c.errs[i] }))
		if (err == nil) != (c.want == nil) {
			t.Errorf("%v: got %v", c.errs, err)
		}
		for _, want := range c.want {
			if !errors.Is(err, want) {
				t.Errorf("%v: got %v, want %v", c.errs, err, want)
			}
		}
	}
}

// A stop gives no group up: ranks of other processes, which may be in a later call, end without an error.
func TestAStopGivesNoGroupUp(t *testing.T) {
	t.Parallel()
	f := line.Flags
	if err := f.Parse("line", []string{"-epochs", "20000", "-ranks", "2", "-checkpoint", filepath.Join(t.TempDir(), "c")}, nil); err != nil {
		t.Fatal(err)
	}
	opt, err := f.Options()
	if err != nil {
		t.Fatal(err)
	}
	members, err := f.join(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	train, test, err := line.Load(f)
	if err != nil {
		t.Fatal(err)
	}
	opt.Fields = train.Fields()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	e := line
	e.Progress = func(trainer.Progress) { cancel() }
	if _, err := e.trainRanks(ctx, f, io.Discard, opt, members, train, test); !onlyStopped(err) {
		t.Errorf("got %v, want only stops", err)
	}
	for _, m := range members {
		if err := m.Err(); err != nil {
			t.Errorf("rank %d: %v", m.rank(), err)
		}
	}
	if err := leave(members, nil); err != nil {
		t.Error(err)
	}
}
