package workload

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"pgtare/workload/script"
)

func mustParse(t testing.TB, text string) *script.Script {
	t.Helper()
	s, err := script.Parse(t.Name(), text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// encodeAll is what a server sends.
func encodeAll(t testing.TB, messages ...pgproto3.BackendMessage) []byte {
	t.Helper()
	var b []byte
	var err error
	for _, m := range messages {
		if b, err = m.Encode(b); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func failed(severity, state, message string) *pgproto3.ErrorResponse {
	return &pgproto3.ErrorResponse{Severity: "FEHLER", SeverityUnlocalized: severity, Code: state, Message: message}
}

var scanCases = []struct {
	name     string
	messages []pgproto3.BackendMessage
	want     answer
	last     lastWords
}{
	{"select", []pgproto3.BackendMessage{
		&pgproto3.RowDescription{Fields: []pgproto3.FieldDescription{{Name: []byte("?column?")}}},
		&pgproto3.DataRow{Values: [][]byte{[]byte("1")}},
		&pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")},
		&pgproto3.ReadyForQuery{TxStatus: 'I'},
	}, answer{status: 'I'}, lastWords{}},
	{"prepare and execute", []pgproto3.BackendMessage{
		&pgproto3.ParseComplete{}, &pgproto3.BindComplete{}, &pgproto3.NoData{},
		&pgproto3.CommandComplete{CommandTag: []byte("INSERT 0 1")},
		&pgproto3.ReadyForQuery{TxStatus: 'T'},
	}, answer{status: 'T', parsed: true}, lastWords{}},
	{"the protocol's own bytes as data", []pgproto3.BackendMessage{
		&pgproto3.DataRow{Values: [][]byte{[]byte("Z\x00\x00\x00\x05I"), nil, []byte("E\x00\x00\x00\x08")}},
		&pgproto3.ReadyForQuery{TxStatus: 'E'},
	}, answer{status: 'E'}, lastWords{}},
	{"two errors, notices and parameters", []pgproto3.BackendMessage{
		&pgproto3.NoticeResponse{Severity: "NOTICE", SeverityUnlocalized: "NOTICE", Code: "00000", Message: "x"},
		failed("ERROR", "22012", "division by zero"), failed("ERROR", "25P02", "aborted"),
		&pgproto3.ParameterStatus{Name: "TimeZone", Value: "UTC"},
		&pgproto3.NotificationResponse{PID: 1, Channel: "c"},
		&pgproto3.ReadyForQuery{TxStatus: 'I'},
	}, answer{status: 'I', sqlstate: [5]byte([]byte("22012"))}, lastWords{}},
	{"an error longer than what is kept", []pgproto3.BackendMessage{
		failed("ERROR", "42601", strings.Repeat("x", 3*keptBody)),
		&pgproto3.ReadyForQuery{TxStatus: 'I'},
	}, answer{status: 'I', sqlstate: [5]byte([]byte("42601"))}, lastWords{}},
	{"an error exactly as long", []pgproto3.BackendMessage{
		failed("ERROR", "42601", strings.Repeat("x", keptBody-len("SFEHLER.VERROR.C42601.M..."))),
		&pgproto3.ReadyForQuery{TxStatus: 'I'},
	}, answer{status: 'I', sqlstate: [5]byte([]byte("42601"))}, lastWords{}},
	{"COPY in", []pgproto3.BackendMessage{&pgproto3.CopyInResponse{}}, answer{copyIn: true, copied: true}, lastWords{}},
	{"COPY out", []pgproto3.BackendMessage{
		&pgproto3.CopyOutResponse{}, &pgproto3.CopyData{Data: []byte("1\n")}, &pgproto3.CopyDone{},
		&pgproto3.CommandComplete{CommandTag: []byte("COPY 1")}, &pgproto3.ReadyForQuery{TxStatus: 'I'},
	}, answer{status: 'I', copied: true}, lastWords{}},
	{"the end", []pgproto3.BackendMessage{
		failed("FATAL", "57P01", "terminating connection"),
	}, answer{sqlstate: [5]byte([]byte("57P01"))}, lastWords{"57P01", "FATAL: terminating connection"}},
	{"the end at once", []pgproto3.BackendMessage{
		&pgproto3.NoticeResponse{Severity: "WARNING", SeverityUnlocalized: "WARNING", Code: "57P02", Message: "another process crashed"},
	}, answer{}, lastWords{"57P02", "WARNING: another process crashed"}},
}

// What the scanner learns does not depend on where the receive buffer ended.
func TestScanHoweverItIsCut(t *testing.T) {
	check := func(name string, s *scanner, ready bool, want answer, last lastWords) {
		t.Helper()
		if s.answer != want || s.last != last || s.broken != "" || ready != (want.status != 0) {
			t.Errorf("%s: %+v, last words %+v, ready %v, broken %q; want %+v, %+v", name, s.answer, s.last, ready, s.broken, want, last)
		}
		if s.skip != 0 || s.held != 0 || s.want != 0 {
			t.Errorf("%s: the scanner waits for more: %+v", name, s)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for _, c := range scanCases {
		b := encodeAll(t, c.messages...)
		var s scanner
		check(c.name, &s, s.scan(b), c.want, c.last)
		for first := 1; first < len(b); first += 1 + len(b)/2000 {
			var s scanner
			ready := s.scan(b[:first])
			ready = s.scan(b[first:]) || ready
			check(c.name, &s, ready, c.want, c.last)
		}
		for range 200 {
			var s scanner
			ready := false
			for rest := b; len(rest) > 0; {
				n := 1 + random.IntN(min(len(rest), 1+random.IntN(1+len(b)/3)))
				ready = s.scan(rest[:n]) || ready
				rest = rest[n:]
			}
			check(c.name, &s, ready, c.want, c.last)
		}
	}
}

// What does not belong to the protocol is found out, not waited for.
func TestScanBroken(t *testing.T) {
	for _, text := range []string{"HTTP/1.1 400 Bad Request\r\n", "Z\x00\x00\x00\x06II", "D\xff\xff\xff\xff", "D\x00\x00\x00\x03", "W\x00\x00\x00\x07\x00\x00\x00"} {
		for cut := range len(text) {
			var s scanner
			s.scan([]byte(text[:cut]))
			if s.broken == "" {
				s.scan([]byte(text[cut:]))
			}
			if s.broken == "" {
				t.Errorf("%q, cut after %d, was taken for the protocol", text, cut)
			}
		}
	}
}

// An answer is forgotten by reset, words at the end of a connection are not.
func TestScanReset(t *testing.T) {
	var s scanner
	s.scan(encodeAll(t, failed("FATAL", "57P01", "the end")))
	s.reset()
	if s.answer != (answer{}) || s.last.sqlstate != "57P01" {
		t.Errorf("after reset: %+v, %+v", s.answer, s.last)
	}
}

func FuzzScan(f *testing.F) {
	for _, c := range scanCases {
		f.Add(encodeAll(f, c.messages...), 3)
	}
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		var whole, parts scanner
		ready := whole.scan(b)
		again := false
		if cut = max(1, cut%(len(b)+1)); len(b) > 0 {
			for rest := b; len(rest) > 0 && parts.broken == ""; {
				n := min(cut, len(rest))
				again = parts.scan(rest[:n]) || again
				rest = rest[n:]
			}
		}
		if whole.broken != "" && parts.broken != "" {
			return // both gave up; what they learnt before may differ
		}
		if ready != again || whole.answer != parts.answer || whole.last != parts.last || whole.broken != parts.broken {
			t.Errorf("whole: %v %+v %+v %q; in parts of %d: %v %+v %+v %q", ready, whole.answer, whole.last, whole.broken, cut, again, parts.answer, parts.last, parts.broken)
		}
	})
}

// The messages are what another implementation of the protocol understands.
func TestMessages(t *testing.T) {
	commands, err := encode(mustParse(t, "SELECT :a, ':b'\\; SELECT :a; UPDATE t SET x = :c;"), map[string]string{"a": "1", "b": "two"}, Simple)
	if err != nil {
		t.Fatal(err)
	}
	check(t, commands[0].message, &pgproto3.Query{String: "SELECT 1, 'two'; SELECT 1;"})
	check(t, commands[1].message, &pgproto3.Query{String: "UPDATE t SET x = :c;"})

	commands, err = encode(mustParse(t, "SELECT :a, :b, :a; SELECT :c;"), map[string]string{"a": "1", "b": ""}, Extended)
	if err != nil {
		t.Fatal(err)
	}
	tail := []pgproto3.FrontendMessage{&pgproto3.Describe{ObjectType: 'P'}, &pgproto3.Execute{}, &pgproto3.Sync{}}
	text := []int16{0}
	bind := func(name string, values ...[]byte) *pgproto3.Bind {
		return &pgproto3.Bind{PreparedStatement: name, Parameters: values, ResultFormatCodes: text}
	}
	check(t, commands[0].message, append([]pgproto3.FrontendMessage{&pgproto3.Parse{Query: "SELECT $1, $2, $3;"}, bind("", []byte("1"), []byte{}, []byte("1"))}, tail...)...)
	check(t, commands[1].message, append([]pgproto3.FrontendMessage{&pgproto3.Parse{Query: "SELECT $1;"}, bind("", nil)}, tail...)...)
	if commands[0].prepare != nil {
		t.Error("the extended protocol prepares")
	}

	commands, err = encode(mustParse(t, "SELECT 1; SELECT :a;"), map[string]string{"a": "1"}, Prepared)
	if err != nil {
		t.Fatal(err)
	}
	check(t, commands[1].message, append([]pgproto3.FrontendMessage{bind("P_1", []byte("1"))}, tail...)...)
	check(t, commands[1].prepare, append([]pgproto3.FrontendMessage{&pgproto3.Parse{Name: "P_1", Query: "SELECT $1;"}, bind("P_1", []byte("1"))}, tail...)...)

	check(t, copyFailSyncMessage, &pgproto3.CopyFail{Message: "the load engine sends no COPY data"}, &pgproto3.Sync{})
	check(t, terminateMessage, &pgproto3.Terminate{})
}

func check(t *testing.T, message []byte, want ...pgproto3.FrontendMessage) {
	t.Helper()
	var b []byte
	for _, m := range want {
		b, _ = m.Encode(b)
	}
	if !bytes.Equal(message, b) {
		t.Errorf("the message is\n%q, want\n%q", message, b)
	}
}

func BenchmarkScan(b *testing.B) {
	answer := encodeAll(b, scanCases[0].messages...)
	var s scanner
	for b.Loop() {
		s.reset()
		if !s.scan(answer) {
			b.Fatal("no ReadyForQuery")
		}
	}
}
