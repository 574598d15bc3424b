package parquet_test

import (
	"testing"

	"github.com/evenkeel/evenkeel/dataloader/internal/tabletest"
	"github.com/evenkeel/evenkeel/dataloader/parquet"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a file of testdata.
func open(t testing.TB, name string, opt parquet.Options) *parquet.Dataset {
	t.Helper()
	d, err := parquet.Open("testdata/"+name, opt)
	return tabletest.Opened(t, d, err)
}
