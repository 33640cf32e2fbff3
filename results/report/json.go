package report

import (
	"encoding/json"
	"io"
)

// JSON writes the report in schema 1: one object, two spaces of indentation,
// keys in a fixed order. It holds no NaN and no infinity.
func (r *Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false) // "<" is no danger here, and \u003c no help
	e.SetIndent("", "  ")
	return e.Encode(r)
}
