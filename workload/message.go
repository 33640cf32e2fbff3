package workload

import (
	"encoding/binary"
	"fmt"

	"pgtare/workload/script"
)

// command is one SQL command of a script as it goes over the wire: one write,
// one round trip.
type command struct {
	message []byte
	// prepare, when not nil, is sent instead of message until the client's
	// connection has the prepared statement: a Parse, and then message. So
	// preparing is no round trip of its own, and happens right before the first
	// use, when the tables that the statement speaks of exist.
	prepare []byte
}

// encode makes the messages of a script. The values of the variables go into
// them, so that nothing is put together between transactions.
func encode(s *script.Script, vars map[string]string, protocol Protocol) ([]command, error) {
	commands := make([]command, len(s.Commands))
	for i, c := range s.Commands {
		if protocol == Simple {
			commands[i].message = query(script.Substitute(c, vars))
			continue
		}
		sql, names := script.Placeholders(c)
		if len(names) > script.MaxPlaceholders {
			return nil, fmt.Errorf("%s:%d: the command refers to variables %d times, and with the %s protocol %d is the limit: use the simple protocol",
				s.Name, c.Line, len(names), protocol, script.MaxPlaceholders)
		}
		values := make([]*string, len(names))
		for k, name := range names {
			if v, ok := vars[name]; ok {
				values[k] = &v
			}
		}
		if protocol == Extended {
			commands[i].message = append(parse("", sql), execute("", values)...)
			continue
		}
		// pgbench's names: a counter over all SQL commands.
		name := fmt.Sprintf("P_%d", i)
		commands[i].message = execute(name, values)
		commands[i].prepare = append(parse(name, sql), commands[i].message...)
	}
	return commands, nil
}

// The messages that the engine sends by itself. They go by the simple protocol
// whatever the script's is: they are not measured.
var (
	beginMessage    = query("BEGIN")
	commitMessage   = query("COMMIT")
	rollbackMessage = query("ROLLBACK")
	// restartMessage replaces the SQL transaction of single-transaction mode
	// after an error, in one round trip.
	restartMessage = query("ROLLBACK;BEGIN")

	syncMessage      = message('S', nil)
	terminateMessage = message('X', nil)
	// copyFailMessage ends a COPY FROM STDIN. With the extended protocol the
	// server has swallowed the Sync that was sent behind Execute, and waits for
	// another one after the error.
	copyFailMessage     = message('f', []byte("the load engine sends no COPY data\x00"))
	copyFailSyncMessage = append(message('f', []byte("the load engine sends no COPY data\x00")), syncMessage...)
)

// message frames a body.
func message(kind byte, body []byte) []byte {
	m := append(make([]byte, 0, 5+len(body)), kind)
	m = binary.BigEndian.AppendUint32(m, uint32(4+len(body)))
	return append(m, body...)
}

func query(sql string) []byte { return message('Q', cstring(nil, sql)) }

func parse(name, sql string) []byte {
	body := cstring(cstring(nil, name), sql)
	return message('P', binary.BigEndian.AppendUint16(body, 0)) // no types given
}

// execute is Bind, Describe, Execute and Sync, in text format; nil binds NULL.
// It is what libpq sends for PQsendQueryParams and PQsendQueryPrepared, the
// Describe included, whose answer nobody needs: the server's work must be the
// same as under pgbench.
func execute(name string, values []*string) []byte {
	body := cstring(cstring(nil, ""), name)
	body = binary.BigEndian.AppendUint16(body, 0) // all parameters are text
	body = binary.BigEndian.AppendUint16(body, uint16(len(values)))
	for _, v := range values {
		if v == nil {
			body = binary.BigEndian.AppendUint32(body, ^uint32(0))
			continue
		}
		body = binary.BigEndian.AppendUint32(body, uint32(len(*v)))
		body = append(body, *v...)
	}
	body = binary.BigEndian.AppendUint16(body, 1) // one format for all columns: text
	body = binary.BigEndian.AppendUint16(body, 0)
	m := message('B', body)
	m = append(m, message('D', []byte("P\x00"))...)
	m = append(m, message('E', []byte("\x00\x00\x00\x00\x00"))...) // unnamed portal, all rows
	return append(m, syncMessage...)
}

func cstring(b []byte, s string) []byte { return append(append(b, s...), 0) }
