package workload

import (
	"errors"
	"fmt"
)

// ErrGrace is wrapped by the error of a slice in which the server did not
// answer in time: see Slice.Grace.
var ErrGrace = errors.New("the server did not answer in time")

// LostError says that a client's connection came to an end during a slice:
// the server was stopped, the backend was terminated or crashed, or what came
// over the connection is not the protocol.
type LostError struct {
	Client   int    // from 0
	SQLState string // of the server's last words; "" when it had none
	Message  string // the same: severity and message
	Err      error  // what the connection said: io.EOF, a system error; nil when the protocol was broken
}

func (e *LostError) Error() string {
	switch {
	case e.SQLState != "":
		return fmt.Sprintf("client %d lost its connection: %s (SQLSTATE %s)", e.Client, e.Message, e.SQLState)
	case e.Message != "":
		return fmt.Sprintf("client %d lost its connection: %s", e.Client, e.Message)
	}
	return fmt.Sprintf("client %d lost its connection: %v", e.Client, e.Err)
}

func (e *LostError) Unwrap() error { return e.Err }

// SQLSTATEs under which the engine itself counts a transaction as failed.
const (
	// StateCopy (feature_not_supported): the script started a COPY from or to
	// the client.
	StateCopy = "0A000"
	// StateOpenTransaction (active_sql_transaction): the script ended inside
	// an SQL transaction of its own, which was rolled back, or it ended the
	// one of single-transaction mode.
	StateOpenTransaction = "25001"
)
