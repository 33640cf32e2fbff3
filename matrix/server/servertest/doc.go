// Package servertest gives tests a real PostgreSQL.
//
// Start returns one server per test binary, shared by its tests and started
// when the first asks for it; Fresh one of the test's own, that may be
// stopped and killed; Encrypted one more that takes only TLS and a password.
// All are the newest local PostgreSQL, else a fetched one. Where there is none, a test is skipped, and fails under CI=true.
//
// A package whose tests use either should have
//
//	func TestMain(m *testing.M) { servertest.Main(m) }
//
// which removes the servers' files at the end. Without it the processes end
// with the test binary all the same, and the next start removes the files.
package servertest
