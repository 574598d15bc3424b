package python_test

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/internal/peer/python"
)

// A shell takes a script, and arguments, as a Python does.
func TestAScriptGetsInputAndArguments(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("needs a shell: ", err)
	}
	out, err := python.Run(t.Context(), "sh", `cat; printf ", %s" "$@"`, []byte("input"), "sh", "a b", "c")
	if err != nil || string(out) != "input, a b, c" {
		t.Errorf("got %q, %v", out, err)
	}
	var status *exec.ExitError
	out, err = python.Run(t.Context(), "sh", "echo half; echo no module >&2; exit 3", nil)
	if !errors.As(err, &status) || status.ExitCode() != 3 || !strings.Contains(err.Error(), "no module") || out != nil {
		t.Errorf("got %q, %v, want status 3 and the message", out, err)
	}
}

func TestAPythonThatIsMissingIsNamed(t *testing.T) {
	if _, err := python.Run(t.Context(), "no-such-python", "", nil); !errors.Is(err, exec.ErrNotFound) || !strings.Contains(err.Error(), "no-such-python") {
		t.Errorf("got %v", err)
	}
}
