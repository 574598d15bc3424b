package optim_test

import (
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// One class of errors is one value in every package, so that errors.Is finds it wherever the error comes from.
func TestPackagesShareTheirClassesOfErrors(t *testing.T) {
	t.Parallel()
	for name, same := range map[string][2]error{
		"optim.ErrOption":      {optim.ErrOption, arena.ErrOption},
		"dataloader.ErrOption": {dataloader.ErrOption, arena.ErrOption},
		"dataloader.ErrBusy":   {dataloader.ErrBusy, arena.ErrBusy},
		"dataloader.ErrClosed": {dataloader.ErrClosed, arena.ErrClosed},
	} {
		if same[0] != same[1] {
			t.Errorf("%s is not the error of package arena", name)
		}
	}
}
