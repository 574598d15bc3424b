package trainer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/group"
	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/kernels"
)

// RefusalError reports that a call was refused before it changed anything, on all ranks of
// Options.Group alike: because of an argument, an option or data of one rank or of all. The group goes on. It wraps the
// sentinel of the rank's error and, on a rank that refused the call itself, its error.
type RefusalError struct {
	Rank  int    // the first rank that refuses the call
	Text  string // its error
	Own   error  // the error of the rank that has this RefusalError; nil: it would not have refused the call
	class []error
}

func (e *RefusalError) Error() string { return fmt.Sprintf("rank %d: %s", e.Rank, e.Text) }

// Unwrap returns Own, or the sentinels of the other rank's error.
func (e *RefusalError) Unwrap() []error {
	if e.Own != nil {
		return []error{e.Own}
	}
	return e.class
}

// refusalClasses are the sentinels of refusals, which ranks tell each other by their places here.
var refusalClasses = [...]error{ErrOption, ErrModel, ErrData, ErrBusy, dataloader.ErrShort, frontend.ErrRows,
	kernels.ErrShape, kernels.ErrUnsupported, arena.ErrCapacity, ErrClosed}

// refusal is what ranks exchange of a RefusalError.
type refusal struct {
	Text    string
	Classes []int // in refusalClasses
}

// agreeOnRefusal returns nil if no rank has an error, and a *RefusalError on every rank if one has. A
// rank whose context has ended, or whose group is broken, keeps its error, which breaks the group.
func (o *Options) agreeOnRefusal(ctx context.Context, own error) error {
	var broken *group.RankError
	if o.ranks() == 1 || own != nil && (ctx.Err() != nil || errors.As(own, &broken)) {
		return own
	}
	var mine []byte
	if own != nil {
		r := refusal{Text: own.Error()}
		for i, class := range refusalClasses {
			if errors.Is(own, class) {
				r.Classes = append(r.Classes, i)
			}
		}
		var err error
		if mine, err = json.Marshal(r); err != nil {
			return err
		}
	}
	all, err := group.Exchange(ctx, o.Group, mine)
	if err != nil {
		return errors.Join(own, err)
	}
	for rank, b := range all {
		if len(b) == 0 {
			continue
		}
		var r refusal
		if err := json.Unmarshal(b, &r); err != nil {
			return fmt.Errorf("refusal of rank %d: %w", rank, err)
		}
		e := &RefusalError{Rank: rank, Text: r.Text, Own: own}
		for _, i := range r.Classes {
			if i >= 0 && i < len(refusalClasses) {
				e.class = append(e.class, refusalClasses[i])
			}
		}
		return agreedError{e}
	}
	return nil
}
