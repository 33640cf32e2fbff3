package matrix

import (
	"fmt"

	"pgtare/matrix/server"
)

// UsageError is a mistake of the user's: one sentence that names the remedy.
type UsageError struct{ Msg string }

func (e *UsageError) Error() string { return e.Msg }

// FailedCells says in which cells a whole generation passed without a success.
// The others have a result.
type FailedCells struct{ Msg string }

func (e *FailedCells) Error() string { return e.Msg }

func usagef(format string, args ...any) error {
	return &UsageError{fmt.Sprintf(format, args...)}
}

// hint is what to say to somebody who named something that isn't known, with a
// semicolon before it; "" for nothing.
func hint(name string, known []string) string {
	if s := server.Suggest(name, known); s != "" {
		return "; " + s
	}
	return ""
}
