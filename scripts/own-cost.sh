#!/usr/bin/env bash
# What a transaction costs the client itself: pgtare's engine, and the real
# pgbench beside it, against a stub that answers every statement at once
# (scripts/own-cost; no PostgreSQL takes part).
#
#   scripts/own-cost.sh [-n PAIRS] [-T SECONDS] [-c "CLIENTS ..."]
#
# 1, 8 and 64 clients on one thread, SELECT 1, simple and prepared protocol.
# Each pair is one run of either program, T seconds each; which one goes first
# alternates. Printed: median [quartiles] over the pairs, in ns per transaction,
# of
#
#   cpu      user and system time of the whole process
#   user     its user time, system: its system time. The kernel splits the two
#            by what its clock ticks meet; their sum is exact
#   elapsed  the time from one completion to the next: the stub's share is in it
#
# Start-up and connecting are taken off: from each run that of one transaction
# per client, measured right before. The last column is the engine's cpu divided
# by pgbench's in the same pair. Client and stub share one CPU, so that nobody
# pays for waking another: the last one that this process may use, or
# BENCH_CPU=N. BENCH_BINDIR=DIR says where pgbench is, BENCH_ENGINE=net takes
# the other engine.
#
# Exit status: 0, or 2 when nothing could be measured.
set -euo pipefail
export LC_ALL=C

pairs=7 seconds=1 sizes='1 8 64'
here=$(cd "$(dirname "$0")" && pwd)
. "$here/pairs.sh"
pairs_options "$@"
pgbench=$(find_program pgbench)

work=$(mktemp -d)
stub=
trap '[ -z "$stub" ] || kill "$stub" 2>/dev/null || true; rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
(cd "$here" && CGO_ENABLED=0 go build -o "$work/" ./enginebench ./own-cost) || die "the programs do not build"
echo 'SELECT 1;' >"$work/select1.sql"

taskset -c "$cpu" "$work/own-cost" "$work/.s.PGSQL.5432" >"$work/stub.log" 2>&1 &
stub=$!
for _ in $(seq 100); do
	grep -q listening "$work/stub.log" && break
	sleep 0.02
done
grep -q listening "$work/stub.log" || { cat "$work/stub.log" >&2; die "the stub does not start"; }
conninfo="host=$work port=5432 user=stub dbname=stub sslmode=disable"

# timed PROGRAM CLIENTS PROTOCOL LENGTH: prints user and system s, transactions, tps.
timed() {
	local log=$work/run.log times=$work/run.times command
	case $1 in
	engine) command=("$work/enginebench" -engine "${BENCH_ENGINE:-epoll}") ;;
	pgbench) command=("$pgbench" -n) ;;
	esac
	local TIMEFORMAT='%U %S'
	{ time taskset -c "$cpu" "${command[@]}" -c "$2" -j 1 -M "$3" $4 -f "$work/select1.sql" "$conninfo" >"$log" 2>&1; } 2>"$times" || { cat "$log" >&2; die "$1 failed"; }
	awk 'FILENAME == ARGV[1] { user = $1; system_ = $2; next }
		/^number of transactions actually processed/ { split($6, f, "/"); n = f[1] }
		$1 == "transactions" { n = $2 }
		$1 == "tps" { tps = $2 == "=" ? $3 : $2 }
		END { if (!n || !tps) exit 1; print user, system_, n, tps }' "$times" "$log" || { cat "$log" >&2; die "no figures from $1"; }
}

# one PROGRAM CLIENTS PROTOCOL: prints cpu, user, system and elapsed ns per transaction.
one() {
	local start run
	start=$(timed "$1" "$2" "$3" "-t 1")
	run=$(timed "$1" "$2" "$3" "-T $seconds")
	echo "$start $run" | awk '{ n = $7 - $3; u = ($5 - $1) * 1e9 / n; s = ($6 - $2) * 1e9 / n; printf "%.0f %.0f %.0f %.0f\n", u + s, u, s, 1e9 / $8 }'
}

# quartiles FORMAT of the numbers on standard input, by linear interpolation.
quartiles() {
	sort -g | awk -v f="$1" '
		{ v[NR] = $1 }
		function q(p,   h, i) { h = (NR - 1) * p + 1; i = int(h); return i >= NR ? v[NR] : v[i] + (h - i) * (v[i+1] - v[i]) }
		END { printf f " [" f " " f "]\n", q(.5), q(.25), q(.75) }'
}

echo "$("$pgbench" --version) beside the engine; $pairs pairs of $seconds s; client and stub on CPU $cpu"
echo "ns per transaction, median [quartiles]"
printf '%-7s %-8s %-7s %-22s %-22s %-22s %-22s %s\n' clients protocol program cpu user system elapsed 'cpu, engine/pgbench'
for clients in $sizes; do
	for protocol in simple prepared; do
		: >"$work/engine"
		: >"$work/pgbench"
		for ((i = 1; i <= pairs; i++)); do
			order='engine pgbench'
			((i % 2)) || order='pgbench engine'
			for program in $order; do
				# On a line of its own: a failure must end the script.
				figures=$(one $program $clients $protocol)
				echo "$figures" >>"$work/$program"
			done
		done
		ratio=$(paste -d' ' "$work/engine" "$work/pgbench" | awk '{ print $1 / $5 }' | quartiles %.3f)
		for program in engine pgbench; do
			line=$(printf '%-7s %-8s %-7s' $clients $protocol $program)
			for column in 1 2 3 4; do
				line+=$(printf ' %-22s' "$(awk -v c=$column '{ print $c }' "$work/$program" | quartiles %.0f)")
			done
			echo "$line $ratio"
			ratio=
		done
	done
done
