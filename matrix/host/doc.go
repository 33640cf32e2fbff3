// Package host knows the machine: what it is, which CPUs are ours, and what a
// process has used of them.
//
//   - [Facts] is what a record says of the machine.
//   - [CPUs], [Siblings], [SetAffinity] and [Quietest] serve placement. A CPU
//     outside CPUs() is never offered: the list is what the scheduler allows
//     this process, so cgroup cpusets and taskset count.
//   - [Proc] reads the counters of one process or thread again and again. It
//     is read around every slice for every backend, so it keeps its files
//     open and allocates nothing.
//   - [Watch] reads what the whole machine does beside: busy and stolen time,
//     throttling, frequency, clock source. The difference of two readings is
//     a line of the record.
//
// All of it is Linux: /proc, /sys and the scheduler's system calls. What a
// kernel or container doesn't show is left empty.
package host
