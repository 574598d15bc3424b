// Command main builds the emulated driver and prints its folder.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/evenkeel/evenkeel/internal/fakecuda"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dir, err := fakecuda.Build(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(dir)
}
