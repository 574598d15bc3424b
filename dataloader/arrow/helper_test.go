package arrow_test

import (
	"testing"

	"github.com/evenkeel/evenkeel/dataloader/arrow"
	"github.com/evenkeel/evenkeel/dataloader/internal/tabletest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a file of testdata.
func open(t testing.TB, name string, opt arrow.Options) *arrow.Dataset {
	t.Helper()
	d, err := arrow.Open("testdata/"+name, opt)
	return tabletest.Opened(t, d, err)
}
