package group_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/group"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// local makes a group, runs body on a goroutine for each rank, and closes the ranks.
func local(t *testing.T, n int, opt group.Options, body func(g group.Group)) {
	t.Helper()
	ranks, err := group.Local(n, opt)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for _, g := range ranks {
		all.Go(func() { body(g) })
	}
	all.Wait()
	for _, g := range ranks {
		if err := g.Close(); err != nil {
			t.Errorf("close of rank %d: %v", g.Rank(), err)
		}
	}
}

// prepare makes an operation, which is right.
func prepare(t *testing.T, g group.Group, op group.Op) group.Operation {
	t.Helper()
	o, err := g.Prepare(op)
	if err != nil {
		t.Error(err)
	}
	return o
}

// encode writes numbers as elements of the type.
func encode(d arena.DType, values []float64) []byte {
	b := make([]byte, 0, len(values)*8)
	for _, v := range values {
		switch d {
		case arena.Float32:
			b = binary.NativeEndian.AppendUint32(b, math.Float32bits(float32(v)))
		case arena.Float64:
			b = binary.NativeEndian.AppendUint64(b, math.Float64bits(v))
		case arena.Int32:
			b = binary.NativeEndian.AppendUint32(b, uint32(int32(v)))
		case arena.Int64:
			b = binary.NativeEndian.AppendUint64(b, uint64(int64(v)))
		case arena.Uint8:
			b = append(b, uint8(int32(v)))
		default: // 16 bits, which are only moved
			b = binary.NativeEndian.AppendUint16(b, uint16(int32(v)))
		}
	}
	return b
}

// wantError fails unless err is a RankError of the class that blames exactly the ranks.
func wantError(t *testing.T, who string, err, class error, ranks ...int) {
	t.Helper()
	var e *group.RankError
	if !errors.As(err, &e) || !errors.Is(err, class) {
		t.Errorf("%s: error %v, want %v", who, err, class)
		return
	}
	if fmt.Sprint(e.Ranks) != fmt.Sprint(ranks) || e.Rank != ranks[0] {
		t.Errorf("%s: %v blames %v (%d), want %v", who, err, e.Ranks, e.Rank, ranks)
	}
}
