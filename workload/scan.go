package workload

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// scanner reads the server's messages where they lie in the receive buffer.
// It looks at their headers, passes over the bodies, and keeps what the engine
// must know of an answer. Messages may be cut anywhere by the end of the
// buffer; only then is anything copied.
type scanner struct {
	skip   int     // bytes of the current body still to be passed over
	header [5]byte // a header that was cut
	held   int     // how many bytes of it there are

	// A body that must be read and was cut: kind is the message's, body has
	// what there is of it, want bytes are missing.
	kind byte
	want int
	body []byte

	answer

	// What was learnt about the connection; it stays.
	last   lastWords
	broken string // why this is not the protocol
}

// lastWords is what a server says before it closes a connection: an error of
// severity FATAL or PANIC, or the warning that it sends when it must end at
// once (quickdie in its source). Empty when it said nothing.
type lastWords struct {
	sqlstate, message string
}

// answer is what was learnt since the last reset.
type answer struct {
	status   byte    // of ReadyForQuery: 'I' idle, 'T' in a transaction, 'E' in a failed one
	parsed   bool    // ParseComplete came
	copyIn   bool    // the server waits for COPY data
	copied   bool    // a COPY began, either way
	sqlstate [5]byte // of the first error; zero when there was none
}

func (s *scanner) reset() { s.answer = answer{} }

// keptBody is how much of a message's body is read at most. An error's fields
// come in a fixed order, severity, code and message first.
const keptBody = 8192

// scan takes what has arrived and returns true when ReadyForQuery was in it.
func (s *scanner) scan(b []byte) (ready bool) {
	if s.skip|s.held|s.want != 0 {
		if b, ready = s.resume(b); b == nil {
			return ready
		}
	}
	for len(b) >= 5 {
		kind := b[0]
		size := int(binary.BigEndian.Uint32(b[1:])) - 4
		if size < 0 || size > 1<<30 {
			s.broken = fmt.Sprintf("message %q of %d bytes", kind, size)
			return false
		}
		b = b[5:]
		switch kind {
		case 'Z', 'E', 'N':
			if kind == 'Z' && size == 1 && len(b) > 0 { // as read does
				s.status, ready = b[0], true
				break
			}
			if size > len(b) {
				if len(b) >= keptBody { // what is here suffices
					s.skip = size - len(b)
					return s.read(kind, b) || ready
				}
				s.kind, s.want = kind, min(size, keptBody)-len(b)
				s.skip = size - min(size, keptBody)
				s.body = append(s.body[:0], b...)
				return ready
			}
			ready = s.read(kind, b[:size]) || ready
		case 'C', 'D', 'T', '1', '2', 'n', 'I', 'S', 'A', 'd', 'c', '3', 't', 's':
			if kind == '1' {
				s.parsed = true
			}
		case 'G':
			s.copyIn, s.copied = true, true
		case 'H':
			s.copied = true
		default:
			s.broken = fmt.Sprintf("message %q is not expected here", kind)
			return false
		}
		if size > len(b) {
			s.skip = size - len(b)
			return ready
		}
		b = b[size:]
	}
	if len(b) > 0 {
		s.held = copy(s.header[:], b)
	}
	return ready
}

// resume goes on with a message that was cut, and returns what lies behind it;
// nil when it needs more, or when the rest was scanned already.
func (s *scanner) resume(b []byte) (rest []byte, ready bool) {
	if s.held > 0 {
		n := copy(s.header[s.held:], b)
		if s.held += n; s.held < len(s.header) {
			return nil, false
		}
		// The header is whole: scan it, and it is as if its body were cut.
		s.held = 0
		ready = s.scan(s.header[:])
		if s.broken != "" {
			return nil, false
		}
		b = b[n:]
	}
	if s.want > 0 {
		n := min(s.want, len(b))
		s.body = append(s.body, b[:n]...)
		b = b[n:]
		if s.want -= n; s.want > 0 {
			return nil, ready
		}
		ready = s.read(s.kind, s.body) || ready
	}
	n := min(s.skip, len(b))
	s.skip -= n
	if s.skip > 0 {
		return nil, ready
	}
	rest = b[n:]
	if len(rest) == 0 {
		return nil, ready
	}
	return rest, ready
}

// read takes the body of a message that matters.
func (s *scanner) read(kind byte, body []byte) (ready bool) {
	if kind == 'Z' {
		if len(body) != 1 {
			s.broken = fmt.Sprintf("ReadyForQuery of %d bytes", len(body))
			return false
		}
		s.status = body[0]
		return true
	}
	var severity, state, text []byte
	for len(body) > 1 && body[0] != 0 {
		field := body[0]
		end := bytes.IndexByte(body[1:], 0)
		if end < 0 {
			end = len(body) - 1
		}
		value := body[1 : 1+end]
		switch field {
		case 'V': // never translated, unlike S
			severity = value
		case 'C':
			state = value
		case 'M':
			text = value
		}
		body = body[min(len(body), 2+end):]
	}
	if kind == 'E' && s.sqlstate[0] == 0 {
		copy(s.sqlstate[:], "XX000") // what PostgreSQL says of errors without a SQLSTATE
		copy(s.sqlstate[:], state)
	}
	// Class 57 is operator intervention; 57P are shutdown, crash and the like.
	if ends := string(severity) == "FATAL" || string(severity) == "PANIC"; ends || kind == 'N' && bytes.HasPrefix(state, []byte("57P")) {
		s.last = lastWords{string(state), string(severity) + ": " + string(text)}
	}
	return false
}
