// Package host knows the machine: what it is, which CPUs are ours, and what a
// process has used of them.
//
//   - [Facts] is what a record says of the machine.
//   - [CPUs], [Siblings], [SetAffinity] and [Quiet] serve placement. A CPU
//     outside CPUs() is never offered: the list is what the scheduler allows
//     this process, so cgroup cpusets and taskset count.
//   - [Proc] reads the counters of one process or thread again and again. It
//     is read around every slice for every backend, so it keeps its files
//     open and allocates nothing. [ReadStat] looks at any process once.
//   - [Watch] reads what the whole machine does beside: busy and stolen time,
//     throttling, frequency, clock source. The difference of two readings is
//     a line of the record.
//   - [Journal] holds what must be undone when this process has died.
//   - [ClockSwitch] switches the machine's clock source and puts it back.
//     [Counter] is a clock that doesn't depend on it.
//
// # What must be undone
//
// What pgtare changes outside of its own files (the clock source, a setting or
// the schema of somebody's server) outlives a SIGKILL. So it is written into a
// [Journal] first, and synced, and crossed out when it has been undone. The
// directory is for the caller to choose; pgtare's is undo in the user's state
// directory, beside the records: the user who made a change is the one who may
// undo it, and a directory that the machine empties when it starts would forget
// the servers. Whose process lives is told by the file's lock. A file that
// another user owns, that is a link, or that says something unknown, is never
// acted upon.
//
// # Clock source
//
// The kernel reads time from one source, for the whole machine; the one that is
// in use can be switched through /sys by root, and all CPUs stand still for it.
// The lock on that very file lets one process at a time do so. What a process
// that was killed has left switched is put back only while the kernel still
// runs that was switched, and still uses what was set.
//
// Note: a source that was set by its name is the kernel's until another is set,
// where it had chosen it by itself before. There is no way to see which it was.
//
// The sources differ by some 0.01 % in speed, since the kernel measures each of
// them. [Counter], calibrated once, is the same under all.
//
// All of it is Linux: /proc, /sys and the scheduler's system calls. What a
// kernel or container doesn't show is left empty. On macOS, Facts has what
// sysctl tells, [CPUs] is nil, a Watch knows this process's own CPU time and
// no more, and OpenProc, ReadStat, SetAffinity and Quiet fail.
package host
