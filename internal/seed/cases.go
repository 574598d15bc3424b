package seed

import (
	"fmt"
	"os"
)

// Variable is the environment variable that selects how many cases tests compute: nothing or "few",
// or "all".
const Variable = "EVENKEEL_CASES"

var all = readCases(os.Getenv(Variable))

// readCases reports whether the text selects all cases.
func readCases(text string) bool {
	switch text {
	case "", "few":
		return false
	case "all":
		return true
	}
	panic(fmt.Sprintf("%s=%s: must be few or all", Variable, text))
}

// Cases returns few, or many if EVENKEEL_CASES is "all": numbers of random cases, of samples or of
// anything that a test repeats. Few must still fail for every mistake that the test is there to find.
func Cases[T any](few, many T) T {
	if all {
		return many
	}
	return few
}
