//go:build linux

// Command own-cost is a stub that weighs clients: it takes the server's part of
// the PostgreSQL protocol and answers every statement at once, with one row that
// holds 1, whatever was asked. What a transaction then costs is the client's
// own. It knows no SQL and no errors; it serves own-cost.sh, and no test.
//
//	own-cost SOCKET
//
// It listens on the Unix socket, prints one line when it does, and ends at
// SIGTERM.
package main
