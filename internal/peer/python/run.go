// Package python runs measurements and comparisons with other libraries, and their scripts.
package python

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
)

// Run runs the text of a script with arguments, and in as its input, and returns what it prints.
// The script's messages are part of an error; otherwise they go to the standard error. peer is a
// Python, such as python3.
func Run(ctx context.Context, peer, script string, in []byte, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, peer, append([]string{"-c", script}, args...)...)
	var out, messages bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &messages
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", peer, err, &messages)
	}
	_, err := messages.WriteTo(os.Stderr)
	return out.Bytes(), err
}
