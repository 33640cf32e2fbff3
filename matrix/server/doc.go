// Package server finds PostgreSQL, runs it, and gives it back as it was.
//
// The words:
//
//   - A [Spec] is what the user wrote after --server: nothing, a major ("18"),
//     a version ("18.4"), a directory, a source tree ("src:DIRECTORY#REF"), or
//     a conninfo. [ParseSpec] reads it and touches nothing.
//   - An [Installation] is what a Spec means on this machine: binaries that
//     have been seen to run, or a server that has been seen to answer.
//     [Resolve] turns Specs into Installations; it fetches and builds what is
//     lacking. [List] tells what there is, [Fetch] fetches ahead.
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
// # Where PostgreSQL is found
//
// find.go has the list of directories: of packagers, of programs that keep several
// versions, and PATH. The order matters only where several versions are asked
// for by name, which must come from one origin: the first that has them all.
// An installation counts when postgres --version runs as the user that servers
// run as. Whatever is asked what it is (postgres, pg_config, a compiler) runs as
// that user, also where root asks. All of it is looked for below ResolveConfig.Root, so that the tests
// can lay out a machine of their own.
//
// How an installation was built is asked of the running server (pg_config,
// version(), debug_assertions): pg_config the program is often not there, and
// meson's builds tell it nothing of their options.
//
// # Builds
//
// A source tree is built once, by build.go, with one set of options for every
// tree ([BuildOptions]): two refs in one matrix then differ in nothing else.
// Nothing is written into the tree: its files, or those of a git ref, are
// copied to a session directory, built there as the user that servers run as,
// and the result is renamed to CACHE/builds/KEY when it is whole and on disk. KEY is the
// hash of the tree, the options and the compiler's version; tree.go says why of
// contents and not of times. Of a git work tree the files are those that git
// tracks or would add, whatever was built among them.
//
// The log, CACHE/builds/KEY.log, is also the lock: a second pgtare that wants
// the same build waits and takes it. It stays when a tree doesn't build, and
// [BuildError] names it. What lies in CACHE/builds may be removed at any time
// that no pgtare runs.
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
// Other systems than Linux have no such signal, and don't show who works in a
// directory; there pgtare only attaches to servers ([CanStart]).
//
// The programs of a build are ended as a group when pgtare is interrupted; when
// it is killed, make gets SIGTERM and ends its children, and the next start
// ends what else has its working directory in the session directory.
//
// # Managed instances
//
// They run with PostgreSQL's own defaults, durability included. What pgtare
// must set otherwise is written to pgtare.conf, which postgresql.conf includes
// last, and is listed by [Instance.Deviations]. The result of initdb is kept
// as a template and copied (by reference where the file system can).
//
// initdb gets the same encoding, locale and (from 15 on, where there is a choice)
// locale provider in every version. What else it decides, data checksums and
// the size of WAL segments above all, may be asked for: initdb.go has the
// options, a template for each set of them, the proof that a cluster is what
// was asked, and initdb's words where it refuses. A template is made once for
// a set of options: the luck of an initdb isn't drawn anew at each run.
//
// defaults.go reads what servers' settings are that nobody sets, and says what
// to write so that several are alike. memory.go guesses what an instance takes.
//
// # Settings
//
// settings.go proves that a setting of a session is in force ([Probe]),
// configured.go the same of an instance's configuration ([ProveConfigured]) and
// why a server refuses to start with it ([StartRefusal]); isolation.go knows
// where a setting's cost lands and whether it can act at all. SHOW proves
// nothing: a misspelt name with a dot in it is accepted as a placeholder and
// shown. Being in force is not acting: effects.go looks for what a value must
// make the server show while it works, lines in its log, executions counted by
// pg_stat_statements, times of reading, huge pages.
//
// secret.go knows, by their names, the settings whose values may be secrets. No
// such value is returned, said or written: not as it is read back, nor in what a
// server logs of it.
//
// alias.go knows the names that versions disagree on. The servers map hardly
// any of them: stats_command_string, of the first benchmark of this kind, is an
// unknown name since 8.3.
//
// # Attached servers
//
// They are somebody else's, and left as they were found. [Attach] refuses what
// can't be measured there before it changes anything; each of its errors is one
// sentence with the remedy, and holds no password.
//
//   - One session, the keeper, holds an advisory lock as long as pgtare is at
//     work on the server. A second pgtare is refused, from other databases too:
//     two would measure each other. If it is cut off and another pgtare has come
//     before it is back, the run ends, and what it has to undo stays in the
//     journal: what stands on the server is the other's by then.
//   - Tables live in the schema pgtare, whose comment says whose it is, and only
//     where a workload needs them ([Attached.MakeSchema]). A role without
//     CREATE on the database can measure everything else.
//   - Settings of sessions are given at connecting and leave nothing behind.
//     Those of the configuration are set by [Attached.Configure]: ALTER SYSTEM, a
//     reload, and the proof in a session that began after it. One server has one
//     configuration at a time, so such cells are measured in blocks. Settings
//     that take a restart are refused: pgtare doesn't restart what isn't its own.
//   - Before either is made, the journal (package host) has what undoing it
//     takes: an address without passwords, the server's system identifier, the
//     line that was in postgresql.auto.conf. Close undoes it; after a crash
//     [UndoSchema] and [UndoAlterSystem] do, which need the passwords again from
//     PGPASSWORD, password or service files; of a server that is attached to,
//     [Attached.Undo] by the session that is there. A line that is neither the
//     former one nor pgtare's is somebody else's by then, and stays. Undone means
//     that the file says what it said and has been read: what else has a say in
//     what a setting shows may have changed, and is told.
//   - [Attached.Meddled] sees what others do to the configuration meanwhile.
//   - A reload puts in force whatever stands in the files. So it is refused where
//     one of them was changed after the server had read it, or has a mistake with
//     which nothing would be applied.
//   - Of several hosts, addresses and sslmodes the first session's are kept for
//     all others. A pooler in between is refused: it drops settings given at
//     connecting, or its process IDs are not the backends'.
//   - CPU time of backends is read in this machine's /proc where backend and
//     postmaster are found there with the right kinship and start times (a PID
//     alone proves nothing: see postmasterOf); else by pg_read_file through the
//     server, for a role that may ([Attached.BackendCPU]); else it isn't known.
//
// # What an instance does beside
//
// [Instance.CPU] and [Background] are the work of a whole instance: of its
// backends, and of the processes that no slice can attribute (checkpointer, WAL
// writer, autovacuum). Their differences belong to a cell only where it had the
// instance to itself meanwhile. The counters lag: see [Background].
package server
