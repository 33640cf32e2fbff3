package results

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// maxLine bounds a line of a record, in bytes with its line feed. A generation
// of 10,000 slices takes about 1 MB.
const maxLine = 64 << 20

// FormatError is what is wrong with a record, and where.
type FormatError struct {
	File string // "" when read from a stream without a name
	Line int    // from 1
	Msg  string
}

func (e *FormatError) Error() string {
	if e.File == "" {
		return fmt.Sprintf("record, line %d: %s", e.Line, e.Msg)
	}
	return fmt.Sprintf("record %s:%d: %s", e.File, e.Line, e.Msg)
}

// ReadFile reads the record path. The error is a [*FormatError] where the file
// could be read but isn't a record.
func ReadFile(path string) (*Record, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the record: %w", err)
	}
	defer f.Close()
	rec, err := Read(f)
	var format *FormatError
	switch {
	case errors.As(err, &format):
		format.File = path
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("read the record %s: %w", path, err)
	}
	return rec, nil
}

// Read reads a record from r. A record that was cut off is a record: End is
// then nil, and Torn tells that the last line was incomplete and left out.
// Anything else that [Writer] doesn't write is a [*FormatError]; unknown keys
// are passed over, so that a later format 1 may add some.
func Read(r io.Reader) (*Record, error) {
	rec := &Record{}
	var check checker
	in := bufio.NewReaderSize(r, 1<<16)
	for number := 1; ; number++ {
		text, whole, err := readLine(in)
		if errors.Is(err, errLong) {
			return nil, &FormatError{Line: number, Msg: fmt.Sprintf("the line is longer than %d MiB", maxLine>>20)}
		}
		if err != nil {
			return nil, err
		}
		if !whole && len(text) == 0 {
			break
		}
		if !whole && !json.Valid(text) {
			if number == 1 {
				return nil, &FormatError{Line: 1, Msg: "the header is incomplete: nothing was measured yet when the record was cut off, or it isn't a record of pgtare"}
			}
			rec.Torn = true
			break
		}
		if msg := rec.add(text, &check); msg != "" {
			return nil, &FormatError{Line: number, Msg: msg}
		}
		if !whole {
			break
		}
	}
	if check.h == nil {
		return nil, &FormatError{Line: 1, Msg: "the file is empty"}
	}
	return rec, nil
}

// add takes one line into rec. It returns what is wrong with it, or "".
func (rec *Record) add(text []byte, check *checker) string {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		if check.h == nil {
			return "not a record of pgtare: " + jsonProblem(err)
		}
		return jsonProblem(err)
	}
	if check.h == nil && l.Type != "header" {
		return fmt.Sprintf("the first line is not a header (type %q): not a record of pgtare", clip(l.Type))
	}
	switch l.Type {
	case "header":
		// The version first: nothing else is known about a newer header.
		var version struct {
			Format int `json:"format"`
		}
		if err := json.Unmarshal(text, &version); err != nil {
			return jsonProblem(err)
		}
		if version.Format > Format {
			return fmt.Sprintf("format %d is newer than this pgtare reads (%d): read it with the pgtare that wrote it, or a newer one", version.Format, Format)
		}
		var h Header
		if err := json.Unmarshal(text, &h); err != nil {
			return jsonProblem(err)
		}
		if msg := check.header(&h); msg != "" {
			return msg
		}
		rec.Header = h
		rec.Warnings = append(rec.Warnings, h.Warnings...)
	case "generation":
		var g Generation
		if err := json.Unmarshal(text, &g); err != nil {
			return jsonProblem(err)
		}
		if msg := check.generation(&g); msg != "" {
			return msg
		}
		rec.Generations = append(rec.Generations, g)
	case "machine":
		var m Machine
		if err := json.Unmarshal(text, &m); err != nil {
			return jsonProblem(err)
		}
		if msg := check.machine(&m); msg != "" {
			return msg
		}
		rec.Machine = append(rec.Machine, m)
	case "warning":
		var w Warning
		if err := json.Unmarshal(text, &w); err != nil {
			return jsonProblem(err)
		}
		if msg := check.warning(&w); msg != "" {
			return msg
		}
		rec.Warnings = append(rec.Warnings, w)
	case "end":
		var e End
		if err := json.Unmarshal(text, &e); err != nil {
			return jsonProblem(err)
		}
		if msg := check.end(&e); msg != "" {
			return msg
		}
		rec.End = &e
	default:
		return fmt.Sprintf("unknown type of line %q", clip(l.Type))
	}
	return ""
}

var errLong = errors.New("line too long")

// readLine reads up to a line feed, which it drops; whole is false where the
// input ended before one.
func readLine(in *bufio.Reader) (text []byte, whole bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if len(text)+len(part) > maxLine {
			return nil, false, errLong
		}
		switch {
		case err == nil && text == nil:
			return part[:len(part)-1], true, nil // valid until the next read
		case err == nil:
			text = append(text, part...)
			return text[:len(text)-1], true, nil
		case errors.Is(err, bufio.ErrBufferFull):
			text = append(text, part...)
		case errors.Is(err, io.EOF):
			return append(text, part...), false, nil
		default:
			return nil, false, err
		}
	}
}

// jsonProblem words an error of encoding/json for a reader who sees a line
// number and no Go.
func jsonProblem(err error) string {
	var mismatch *json.UnmarshalTypeError
	if errors.As(err, &mismatch) {
		return fmt.Sprintf("%q can't hold a JSON %s", mismatch.Field, mismatch.Value)
	}
	return "not a JSON object of a record: " + strings.TrimPrefix(err.Error(), "json: ")
}

// clip keeps a message short whatever the file holds.
func clip(s string) string {
	const limit = 64
	if len(s) > limit {
		return string(bytes.ToValidUTF8([]byte(s[:limit]), nil)) + "..."
	}
	return s
}
