// Package server finds PostgreSQL, runs it, and gives it back as it was.
//
// The words:
//
//   - A [Spec] is what the user wrote after --server: nothing, a major ("18"),
//     a version ("18.4"), a directory, or a conninfo. [ParseSpec] reads it and
//     touches nothing.
//   - An [Installation] is what a Spec means on this machine: binaries that
//     have been seen to run, or a server that has been seen to answer.
//     [Resolve] turns Specs into Installations and fetches what is lacking.
//   - An [Instance] is one running PostgreSQL that pgtare owns. A [Manager]
//     makes instances, and its Close removes every trace of them.
//   - An [Attached] server is one that somebody else owns.
//   - A [Target] is either: what the runner needs to know of a server.
//
// The flow:
//
//	ParseSpec -> Resolve -> Manager.Create -> Instance.Start -> ... -> Manager.Close
//	                     -> Attach         ->                   ... -> Attached.Close
//
// # Nothing is left behind
//
// Whatever pgtare makes lives in one directory per process, the session
// directory, under CACHE/run. A lock file in it is held by flock for as long
// as the process lives, so a session whose lock can be had belongs to a dead
// process, whatever PIDs have been reused since. The next NewManager (and the
// next fetch) removes such directories, and ends every process that has its
// working directory inside one of them; PostgreSQL's processes all have theirs
// in their data directory.
//
// Processes do not wait for that. All children are forked by one thread, which
// lives exactly as long as their owner, and the kernel sends them SIGQUIT when
// it ends (PR_SET_PDEATHSIG): the postmaster then does an immediate shutdown
// and takes its backends along. SIGKILL in its place would be worse: a
// backend in the midst of a query learns of its postmaster's death only when
// it next waits for something.
//
// Note: a postmaster that was stopped (SIGSTOP) when pgtare was killed
// (SIGKILL) does not see its SIGQUIT; the next start ends it.
//
// # Managed instances
//
// They run with PostgreSQL's own defaults, durability included. What pgtare
// must set otherwise is written to pgtare.conf, which postgresql.conf includes
// last, and is listed by [Instance.Deviations]. The result of initdb is kept
// as a template and copied (by reference where the file system can).
//
// # Settings
//
// settings.go proves that a setting of a session is in force ([Probe]),
// configured.go the same of an instance's configuration ([ProveConfigured]) and
// why a server refuses to start with it ([StartRefusal]); isolation.go knows
// where a setting's cost lands and whether it can act at all. SHOW proves
// nothing: a misspelt name with a dot in it is accepted as a placeholder and
// shown.
//
// # What an instance does beside
//
// [Instance.CPU] and [Background] are the work of a whole instance: of its
// backends, and of the processes that no slice can attribute (checkpointer, WAL
// writer, autovacuum). Their differences belong to a cell only where it had the
// instance to itself meanwhile. The counters lag: see [Background].
package server
