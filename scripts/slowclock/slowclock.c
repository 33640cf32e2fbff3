/*
 * A server whose clock is slower by a known amount, switchable per session.
 *
 * slowclock.so is preloaded (LD_PRELOAD) into the postmaster and does nothing
 * until it is switched on. A tiny library beside it, loaded by
 * session_preload_libraries, switches it on for that backend: from then on each
 * clock_gettime and gettimeofday of the backend first spins on the clock for at
 * least so many ns as its file's name says, and counts in the slot that follows.
 * Several sizes are several names of one file, so that they can be cells of one
 * matrix on one instance and share every page of memory. (With a library built
 * for each size the baseline's once made SELECT 1 1 % faster than all others.)
 *
 *   gcc -O2 -shared -fPIC -o slowclock.so slowclock.c -ldl
 *   gcc -O2 -shared -fPIC -DPG_MAJOR=15 -o switch.so slowclock.c -ldl
 *   ln switch.so slow500-1.so
 *
 * What it really added is counted, per size, in the file slowclock.counts in the
 * directory of slowclock.so, which must be there before the postmaster starts
 * and be writable for it: SLOTS structs as below, in the machine's byte order.
 *
 * Truth is a difference: size 0 runs the same code, reads the clock twice and
 * counts, without spinning. So the cost of counting and
 * of the reads themselves is on both sides:
 *
 *   truth = reads per transaction x mean added by a read, less the same of size 0
 *
 * A read in which the backend lost the CPU is counted as interrupted, and the
 * time it lost apart: it is rare and a thousand times the size of the rest, so
 * that for one size it would drown what was added.
 *
 * While a server spins, others on the machine push its data out of the caches,
 * so that the rest of its work may take longer, too. That is a consequence of
 * a slow clock like any other, and no part of what the reads added: it is
 * counted apart, as the time between reads and up to the answer. Gaps in which
 * the CPU was lost are left out.
 *
 * What neither holds, the work of the kernel and of the client, is in the whole:
 * the time from one answer to the next, counted where that is below a ms. (A
 * session that waits for its next slice waits longer.)
 *
 * A transaction is a send(): in the simple protocol a short answer is one.
 * (Servers before 15 also send statistics so, twice a second.)
 */
#define _GNU_SOURCE
#include <stdint.h>

struct counts {
	uint64_t ns;          /* asked for */
	uint64_t reads;       /* not interrupted */
	uint64_t interrupted; /* reads left out of added */
	uint64_t added;       /* ns, by reads */
	uint64_t sends;
	uint64_t lost;      /* ns, by interrupted reads, beyond what was asked */
	uint64_t rest;      /* ns, between a read and the next one, or send(), of a transaction */
	uint64_t whole;     /* ns, from a send to the next */
	uint64_t intervals; /* that whole is the sum of */
	uint64_t unused[7];
};

#define SLOTS 32

int slowclock_on(int slot, uint64_t ns);

#ifdef PG_MAJOR /* the switch */

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/*
 * PG_MODULE_MAGIC without the server's headers, which are a package of their
 * own on most systems. From fmgr.h of 13 to 18, with the default limits of
 * pg_config_manual.h; a server that was built otherwise refuses the library.
 */
struct magic {
	int len;
	int version, funcmaxargs, indexmaxkeys, namedatalen, float8byval;
#if PG_MAJOR >= 15
	char abi_extra[32];
#endif
#if PG_MAJOR >= 18
	const char *name, *module_version;
#endif
};

const struct magic *Pg_magic_func(void);
void _PG_init(void);

const struct magic *Pg_magic_func(void)
{
	static const struct magic m = {
		.len = sizeof(struct magic),
		.version = PG_MAJOR * 100,
		.funcmaxargs = 100,
		.indexmaxkeys = 32,
		.namedatalen = 64,
		.float8byval = sizeof(void *) >= 8,
#if PG_MAJOR >= 15
		.abi_extra = "PostgreSQL",
#endif
	};

	return &m;
}

void _PG_init(void)
{
	Dl_info self;
	const char *name;
	unsigned long ns;
	int slot;

	if (!dladdr((void *) _PG_init, &self) || !(name = strrchr(self.dli_fname, '/')) || sscanf(name, "/slow%lu-%d.so", &ns, &slot) != 2) {
		fputs("slowclock: the switch is not called slowNS-SLOT.so\n", stderr);
		_exit(1);
	}
	slowclock_on(slot, ns);
}

#else /* the clock */

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* A read that took this much longer than asked was interrupted. */
#define INTERRUPTED_NS 3000
/* The same of a gap: SELECT 1 has three or four of some us each. */
#define LONG_GAP_NS 50000
/* And of a whole transaction: then the session had no work. */
#define LONG_WHOLE_NS 1000000

static int (*real_clock)(clockid_t, struct timespec *);
static int (*real_day)(struct timeval *, void *);
static ssize_t (*real_send)(int, const void *, size_t, int);

static struct counts *table;
static struct counts *here;  /* of this backend's size; NULL: off */
static struct counts counts; /* since the last send */
static uint64_t last;        /* end of the last read since the last send; 0: none */
static uint64_t last_send;   /* 0: none */

static uint64_t now(void)
{
	struct timespec t;

	real_clock(CLOCK_MONOTONIC, &t);
	return (uint64_t) t.tv_sec * 1000000000 + t.tv_nsec;
}

static void gap(uint64_t end)
{
	if (last && end - last < LONG_GAP_NS)
		counts.rest += end - last;
}

static void lengthen(void)
{
	uint64_t begin, spent;

	if (!here)
		return;
	begin = now();
	gap(begin);
	do
		spent = now() - begin;
	while (spent < counts.ns);
	if (spent > counts.ns + INTERRUPTED_NS) {
		counts.interrupted++;
		counts.lost += spent - counts.ns;
	} else {
		counts.reads++;
		counts.added += spent;
	}
	last = begin + spent;
}

/* Other libraries' constructors may read the clock before find has run. */
static void resolve(void)
{
	if (real_send)
		return;
	real_clock = (int (*)(clockid_t, struct timespec *)) dlsym(RTLD_NEXT, "clock_gettime");
	real_day = (int (*)(struct timeval *, void *)) dlsym(RTLD_NEXT, "gettimeofday");
	real_send = (ssize_t (*)(int, const void *, size_t, int)) dlsym(RTLD_NEXT, "send");
}

__attribute__((constructor)) static void find(void)
{
	Dl_info self;
	char path[4096];
	const char *slash;
	int fd;

	resolve();
	if (!dladdr((void *) slowclock_on, &self) || !(slash = strrchr(self.dli_fname, '/')))
		return;
	snprintf(path, sizeof path, "%.*s/slowclock.counts", (int) (slash - self.dli_fname), self.dli_fname);
	if ((fd = open(path, O_RDWR | O_CLOEXEC)) < 0)
		return;
	if (lseek(fd, 0, SEEK_END) >= (off_t) (SLOTS * sizeof(struct counts))) {
		table = mmap(NULL, SLOTS * sizeof(struct counts), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (table == MAP_FAILED)
			table = NULL;
	}
	close(fd);
}

int slowclock_on(int slot, uint64_t ns)
{
	if (!table || slot < 0 || slot >= SLOTS) {
		/* Without its counts there is no truth: end this backend, and no other. */
		fputs("slowclock: no slowclock.counts beside the library, or it is too short\n", stderr);
		_exit(1);
	}
	here = &table[slot];
	here->ns = counts.ns = ns;
	return 0;
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
	resolve();
	lengthen();
	return real_clock(clock, t);
}

int gettimeofday(struct timeval *t, void *zone)
{
	resolve();
	lengthen();
	return real_day(t, zone);
}

ssize_t send(int fd, const void *data, size_t size, int flags)
{
	resolve();
	if (here) {
		uint64_t end = now();

		gap(end);
		if (last_send && end - last_send < LONG_WHOLE_NS) {
			counts.whole += end - last_send;
			counts.intervals++;
		}
		last_send = end;
		last = 0;
		__atomic_fetch_add(&here->reads, counts.reads, __ATOMIC_RELAXED);
		__atomic_fetch_add(&here->interrupted, counts.interrupted, __ATOMIC_RELAXED);
		__atomic_fetch_add(&here->added, counts.added, __ATOMIC_RELAXED);
		__atomic_fetch_add(&here->sends, 1, __ATOMIC_RELAXED);
		__atomic_fetch_add(&here->lost, counts.lost, __ATOMIC_RELAXED);
		__atomic_fetch_add(&here->rest, counts.rest, __ATOMIC_RELAXED);
		__atomic_fetch_add(&here->whole, counts.whole, __ATOMIC_RELAXED);
		__atomic_fetch_add(&here->intervals, counts.intervals, __ATOMIC_RELAXED);
		counts.reads = counts.interrupted = counts.added = counts.lost = counts.rest = counts.whole = counts.intervals = 0;
	}
	return real_send(fd, data, size, flags);
}

#endif
