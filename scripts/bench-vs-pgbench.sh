#!/usr/bin/env bash
# The load engine against the real pgbench: the same server, the same script
# (SELECT 1;), the same CPU, in turn.
#
#   scripts/bench-vs-pgbench.sh [-n PAIRS] [-T SECONDS] [-c "CLIENTS ..."]
#
# 1, 8 and 64 clients (-c: others) on one job thread, simple and prepared protocol. Each
# pair is one run of either program, T seconds each; which one goes first
# alternates. Printed: median and quartiles, over the pairs, of the engine's
# figure divided by pgbench's in the same pair, for
#
#   tps       transactions per second
#   cpu       user and system time of the whole process, per transaction
#   user      user time of the whole process, per transaction
#
# connecting and start-up included, the engine's latency histogram switched on.
# The engine is built without cgo: threads that the C library makes register
# restartable sequences, which the kernel then serves at every switch of context
# (0.4 us of 11 here; pgbench pays for it, too). pgbench is the program itself,
# not Debian's wrapper, whose start-up takes longer than its own.
#
# Placement: a throw-away PostgreSQL (throwaway.sh) with its backends, and both
# programs, are all on ONE CPU, whatever the number of clients: there a round trip
# costs no wake-up of another CPU, runs differ least, and tps shows the whole
# cost of both sides. The CPU is the last one that this process may use;
# BENCH_CPU=N chooses another.
#
# BENCH_SERVER=CONNINFO takes a running server instead (it is left where it
# runs; only the programs are pinned). BENCH_BINDIR=DIR says where the server's
# programs and pgbench are; otherwise Debian's place and PATH are searched.
#
# Exit status: 0 the demanded figures are met, 1 one is missed, 2 nothing could
# be measured.
set -euo pipefail
export LC_ALL=C

pairs=7 seconds=3 sizes='1 8 64'
here=$(cd "$(dirname "$0")" && pwd)
. "$here/pairs.sh"
. "$here/throwaway.sh"
pairs_options "$@"
pgbench=$(find_program pgbench)

work=$(mktemp -d)
trap 'throwaway_stop; rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

echo 'SELECT 1;' >"$work/select1.sql"
(cd "$here" && CGO_ENABLED=0 go build -o "$work/enginebench" ./enginebench) || die "the engine does not build"

if [ -n "${BENCH_SERVER:-}" ]; then
	conninfo=$BENCH_SERVER
	where="the server at BENCH_SERVER, where it runs; programs on CPU $cpu"
else
	export THROWAWAY_CPU=$cpu THROWAWAY_BINDIR=${BENCH_BINDIR:-}
	throwaway_start "$work/server" || die "the server does not start"
	trap 'throwaway_stop; rm -rf "$work"' EXIT
	conninfo="host=$PGHOST port=5432 user=$PGUSER dbname=$PGDATABASE sslmode=disable"
	where="client and server on CPU $cpu"
fi

# one PROGRAM CLIENTS PROTOCOL: prints tps, and user and all CPU time per transaction in us.
one() {
	local log=$work/run.log times=$work/run.times command
	case $1 in
	engine) command=("$work/enginebench" -c "$2" -j 1 -M "$3" -T "$seconds" -f "$work/select1.sql" "$conninfo") ;;
	pgbench) command=("$pgbench" -n -c "$2" -j 1 -M "$3" -T "$seconds" -f "$work/select1.sql" "$conninfo") ;;
	esac
	local TIMEFORMAT='%U %S'
	{ time taskset -c "$cpu" "${command[@]}" >"$log" 2>&1; } 2>"$times" || { cat "$log" >&2; die "$1 failed"; }
	awk -v program="$1" '
		FILENAME == ARGV[1] { user = $1; all = $1 + $2; next }
		program == "pgbench" && /^number of transactions actually processed/ { split($6, f, "/"); n = f[1] }
		program == "pgbench" && /^tps =/ && !tps { tps = $3 }
		program == "engine" && $1 == "transactions" { n = $2 }
		program == "engine" && $1 == "tps" { tps = $2 }
		END { if (!n || !tps) exit 1; printf "%.1f %.4f %.4f\n", tps, user * 1e6 / n, all * 1e6 / n }' "$times" "$log" || { cat "$log" >&2; die "no figures from $1"; }
}

# quartiles of the numbers on standard input, by linear interpolation.
quartiles() {
	sort -g | awk '
		{ v[NR] = $1 }
		function q(p,   h, i) { h = (NR - 1) * p + 1; i = int(h); return i >= NR ? v[NR] : v[i] + (h - i) * (v[i+1] - v[i]) }
		END { printf "%.3f %.3f %.3f\n", q(.5), q(.25), q(.75) }'
}

echo "$("$pgbench" --version); $pairs pairs of $seconds s; $where"
echo "engine / pgbench, median [quartiles]; demanded, and whether it is met"
printf '%-8s %-9s %-29s %-29s %-29s %s\n' clients protocol tps cpu user 'tps of both'
missed=0
# judge VALUE OPERATOR LIMIT: prints the limit and ok or MISSED; no limit: nothing.
judge() {
	[ -n "${3:-}" ] || return 0
	if awk -v a="$1" -v b="$3" -v op="$2" 'BEGIN { exit !(op == ">=" ? a >= b : a <= b) }'; then
		echo "$2$3 ok"
	else
		echo "$2$3 MISSED"
	fi
}
for clients in $sizes; do
	case $clients in
	1) floor=1.05 ceiling=0.85 user=0.4 ;;
	8) floor=1.0 ceiling=0.8 user=0.4 ;;
	64) floor=1.15 ceiling=0.55 user='' ;;
	*) floor='' ceiling='' user='' ;;
	esac
	for protocol in simple prepared; do
		: >"$work/ratios"
		for ((i = 1; i <= pairs; i++)); do
			# On lines of their own: a failure of either must end the script.
			((i % 2)) || p=$(one pgbench $clients $protocol)
			e=$(one engine $clients $protocol)
			((i % 2 == 0)) || p=$(one pgbench $clients $protocol)
			echo "$e $p" | awk '{ print $1 / $4, $3 / $6, $2 / $5, $1, $4 }' >>"$work/ratios"
		done
		line=$(printf '%-8s %-9s' $clients $protocol)
		column=0
		for demand in ">= $floor" "<= $ceiling" "<= $user"; do
			column=$((column + 1))
			read -r median low high < <(awk -v c=$column '{ print $c }' "$work/ratios" | quartiles)
			verdict=$(judge "$median" $demand)
			[[ $verdict == *MISSED ]] && missed=1
			line+=$(printf ' %-29s' "$median [$low $high] $verdict")
		done
		both=$(for c in 4 5; do awk -v c=$c '{ print $c }' "$work/ratios" | quartiles | awk '{ printf "%d ", $1 }'; done)
		echo "$line $both"
	done
done
exit $missed
