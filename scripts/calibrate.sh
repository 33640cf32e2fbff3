#!/usr/bin/env bash
# The proof that pgtare's intervals hold what they promise, by matrices whose
# truth is known. It ends with tables and with what was promised, met or missed.
#
#   scripts/calibrate.sh [-p PARTS] [-n MATRICES] [-s SECONDS] [-R RUNS] [-d DIRECTORY] [-q] [-r]
#
#   -p  parts, separated by commas; all of them unless given:
#       a  equal cells, ten to a matrix; equal instances
#       b  known costs: a slower clock inside the server (scripts/slowclock), rows in the statement
#       c  the same overhead by slices and blocks, by four lengths of a slice, among 2, 5 and 10 cells
#       d  the real pgbench for the same time, in turn and one after the other, and benchstat
#       e  equal cells while one core is kept busy by another process
#   -n  matrices of part a (40); the other parts take shares of it
#   -s  seconds per cell (30); where it is more, 5 and 10 s are its first generations
#   -R  runs of equal instances (20), of 1 s per cell; 10 are the first ten of them
#   -d  directory of the records, which the servers' user can reach; unless given a new one
#   -q  quick: two minutes that exercise every part; its figures are no evidence
#   -r  measure nothing, print the tables of the records in -d
#
# A record that is there is not measured again, so that a night that was
# interrupted goes on with the same command. The program is built once per
# directory. Seeds are fixed: part and number make them.
set -euo pipefail
cd "$(dirname "$0")/.."

parts=a,b,c,d,e n=40 seconds=30 instance_runs=20 dir='' quick='' only_report=''
usage() { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "scripts/calibrate.sh"; }
while getopts p:n:s:R:d:qrh o; do
	case $o in
	p) parts=$OPTARG ;;
	n) n=$OPTARG ;;
	s) seconds=$OPTARG ;;
	R) instance_runs=$OPTARG ;;
	d) dir=$OPTARG ;;
	q) quick=1 ;;
	r) only_report=1 ;;
	h) usage; exit ;;
	*) usage >&2; exit 2 ;;
	esac
done
number='^[0-9]+(\.[0-9]+)?$'
[[ $n =~ ^[1-9][0-9]*$ && $instance_runs =~ ^[1-9][0-9]*$ && $seconds =~ $number && $parts =~ ^[a-e](,[a-e])*$ ]] || { usage >&2; exit 2; }
[ -z "$only_report" ] || [ -d "$dir" ] || { echo "calibrate.sh: -r wants the directory of the records: -d DIRECTORY" >&2; exit 2; }

if [ -z "$dir" ]; then
	dir=$(mktemp -d "${TMPDIR:-/tmp}/pgtare-calibrate.XXXXXX")
fi
mkdir -p "$dir"
dir=$(readlink -f "$dir")
chmod 755 "$dir" # the server's user reads the libraries in it
[ -z "$quick" ] || { n=4 seconds=0.3 instance_runs=3; } # E takes a minute

report() {
	"$dir/calibrate" ${quick:+-quick} "$dir"
}
# Before anything is measured: a night must not end at a compiler's message.
go build -o "$dir/calibrate" ./scripts/calibrate
if [ -n "$only_report" ]; then
	[ ! -e "$dir/form" ] || ! grep -q quick "$dir/form" || quick=1
	report
	exit
fi

# What must not change while a directory is filled.
form="$seconds s per cell${quick:+, quick}"
if [ -e "$dir/form" ] && [ "$(cat "$dir/form")" != "$form" ]; then
	echo "calibrate.sh: $dir was begun with $(cat "$dir/form"), not $form: give another directory" >&2
	exit 2
fi
echo "$form" >"$dir/form"
bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
[ -n "$bin" ] || bin=$(dirname "$(command -v postgres)") || { echo "calibrate.sh: no PostgreSQL is installed here" >&2; exit 1; }
prefix=$(dirname "$bin")
major=$("$bin/postgres" --version | grep -oE '[0-9]+' | head -n 1)
[ -x "$dir/pgtare" ] || go build -o "$dir/pgtare" ./cmd/pgtare
if [ ! -e "$dir/about" ]; then
	{
		printf 'begun %s, commit %s, %s\n' "$(date -u '+%Y-%m-%d %H:%M UTC')" "$(git describe --always --dirty 2>/dev/null || echo unknown)" "$("$bin/postgres" --version)"
		printf '%s, %s CPUs, Linux %s, %s\n' "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$(nproc)" "$(uname -r)" \
			"$(lscpu | sed -n 's/^Hypervisor vendor: */virtual machine, /p' | grep . || echo 'no hypervisor seen')"
	} >"$dir/about"
fi
. scripts/throwaway.sh

# What runs beside the script ends with it; a shell that waits for a command in
# the foreground would hear of a signal too late.
busy='' child=''
cleanup() {
	# shellcheck disable=SC2086 # a list of processes
	[ -z "$busy" ] || kill $busy 2>/dev/null || true
	if [ -n "$child" ]; then
		kill "$child" 2>/dev/null || true
		wait "$child" 2>/dev/null || true
	fi
	busy='' child=''
	throwaway_stop
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# runs and per_run: 1 s a run, ten runs of less where there is not the time.
runs=$(awk "BEGIN { print ($seconds >= 10) ? int($seconds + 0.5) : 10 }")
[ -z "$quick" ] || runs=3
instance_seconds=1
[ -z "$quick" ] || instance_seconds=0.05
per_run=$(awk "BEGIN { print $seconds / $runs }")
share() { # so many per cent of the number of matrices, rounded up
	[ -z "$quick" ] || { echo 1; return; }
	echo $(((n * $1 + 99) / 100))
}

# measure NAME SEED ARGUMENT...: a matrix, unless its record is there.
measure() {
	local record=$dir/$1.jsonl seed=$2
	[ ! -e "$record" ] || return 0
	echo "$(date '+%H:%M:%S') $1" >&2
	shift 2
	rm -f "$record.part"
	local lengths=("${short[@]}")
	[[ " $* " != *" --schedule block "* ]] || lengths=() # a block has no slices
	"$dir/pgtare" run --seed "$seed" -o "$record.part" "${lengths[@]}" "$@" >"$dir/log" 2>&1 &
	child=$!
	local status=0
	wait "$child" || status=$?
	child=''
	if [ $status != 0 ]; then
		tail -n 5 "$dir/log" >&2
		return $status
	fi
	mv "$record.part" "$record"
}
time_per_cell=(--runs "$runs" -T "$per_run")
short=() # the pilot's lengths, but for the quick form
[ -z "$quick" ] || short=(--slice 5ms --generation 10)
equal_cells=(--set none --controls 9)
[ -z "$quick" ] || equal_cells=(--set none --controls 3)

# 40 matrices are 16 A, 8 B, 6 C, 6 D, 4 E, mixed so that any first part of the
# night holds all of them. E is left to the scheduler, as several clients are by
# default: on two CPUs equal cells then differ by several per cent.
order=ABCDEABACDABAEACDABA
part_a() {
	local i group args
	for i in $(seq "$n"); do
		group=${order:$(((i - 1) % ${#order})):1}
		case $group in
		A) args=(-b select1 -c 1 -M simple --pin core:0) ;;
		B) args=(-b select1 -c 1 -M prepared --pin core:0) ;;
		C) args=(-b insert -c 1 -M simple --pin core:0) ;;
		D) args=(-b select1 -c 8 -M simple --pin core:0) ;;
		E) args=(-b insert -c 8 -M prepared) ;;
		esac
		measure "$(printf 'a-%03d' "$i")" $((3100000 + i)) --server "$prefix" "${args[@]}" "${equal_cells[@]}" "${time_per_cell[@]}"
	done
	local servers=()
	# The control is an instance, too: five and one are six.
	for i in 1 2 3 4 5; do servers+=(--server "equal$i=$prefix"); done
	for i in $(seq "$(share 30)"); do
		measure "$(printf 'i-%03d' "$i")" $((3200000 + i)) "${servers[@]}" -b select1 --set none --pin core:0 --runs "$instance_runs" -T "$instance_seconds"
	done
}

part_b() {
	# The baseline's 0 also counts the anchor and the pilot's unbroken stretches,
	# whose transactions are quicker; the second 0 is a cell like the others, and
	# what truth is a difference from.
	local sizes=(0 0 40 80 180 420 800 2400) slot=0 size libraries='' i counts=$dir/slow/slowclock.counts
	mkdir -p "$dir/slow"
	gcc -O2 -shared -fPIC -o "$dir/slow/slowclock.so" scripts/slowclock/slowclock.c -ldl
	gcc -O2 -shared -fPIC "-DPG_MAJOR=$major" -o "$dir/slow/switch.so" scripts/slowclock/slowclock.c -ldl
	for size in "${sizes[@]}"; do
		ln -f "$dir/slow/switch.so" "$dir/slow/slow$size-$slot.so"
		libraries+=${libraries:+,}$dir/slow/slow$size-$slot.so
		slot=$((slot + 1))
	done
	# Half as many of each kind: together they are as many as part a's.
	for i in $(seq "$(share 50)"); do
		local name
		name=$(printf 'k-%03d' "$i")
		if [ ! -e "$dir/$name.jsonl" ]; then
			rm -f "$counts"
			truncate -s 4096 "$counts"
			chmod 666 "$counts"
			# The record under its name says that its counts are there, too.
			rm -f "$dir/pending.jsonl"
			measure pending $((3300000 + i)) --server "$prefix" -b select1 --pin core:0 --env "LD_PRELOAD=$dir/slow/slowclock.so" \
				--set "session_preload_libraries=$libraries" "${time_per_cell[@]}"
			cp "$counts" "$dir/$name.counts"
			mv "$dir/pending.jsonl" "$dir/$name.jsonl"
		fi
	done
	echo 'select count(*) from (select generate_series(1, :n)) s;' >"$dir/rows.sql"
	for i in $(seq "$(share 50)"); do
		measure "$(printf 'w-%03d' "$i")" $((3400000 + i)) --server "$prefix" -f "$dir/rows.sql" --pin core:0 --set none \
			--var n=1000,1007,1014,1028,1070,1140,1420,3000 "${time_per_cell[@]}"
	done
}

part_c() {
	local i k variant timers=(--set statement_timeout=0,100s --set log_min_duration_statement=-1,100s)
	local lengths=(2 5 20 100) cells=(2 5 10)
	[ -z "$quick" ] || { lengths=(2 20) cells=(2 5); }
	for i in $(seq "$(share 5)"); do
		k=$(printf '%03d' "$i")
		for variant in slice block; do
			measure "c-schedule-$k-$variant" $((3510000 + i)) --server "$prefix" -b select1 --pin core:0 --schedule $variant "${timers[@]}" "${time_per_cell[@]}"
		done
		if [ ! -e "$dir/c-reading-$k-block.jsonl" ] || [ ! -e "$dir/c-reading-$k-slice.jsonl" ]; then
			reading_server
			for variant in slice block; do
				measure "c-reading-$k-$variant" $((3520000 + i)) --server "host=$PGHOST user=postgres dbname=postgres" -f "$dir/scan.sql" --pin core:0 --schedule $variant \
					--set track_io_timing=off,on "${time_per_cell[@]}"
			done
			throwaway_stop
		fi
		for variant in "${lengths[@]}"; do
			measure "c-length-$k-$(printf %03d "$variant")ms" $((3530000 + i)) --server "$prefix" -b select1 --pin core:0 --slice "${variant}ms" --set track_activities=off,on "${timers[@]:0:2}" "${time_per_cell[@]}"
		done
		for variant in "${cells[@]}"; do
			measure "c-cells-$k-$(printf %02d "$variant")" $((3540000 + i)) --server "$prefix" -b select1 --pin core:0 --controls $((variant - 2)) "${timers[@]:0:2}" "${time_per_cell[@]}"
		done
	done
}

# reading_server starts a server whose shared_buffers hold a third of the table
# that is scanned; the kernel holds all of it.
reading_server() {
	throwaway_start "$dir/server"
	trap cleanup EXIT
	psql -Xqc "ALTER SYSTEM SET shared_buffers = '1MB'"
	(cd "$throwaway_dir" && throwaway_as "$throwaway_bin/pg_ctl" -D data -w -l server.log restart >/dev/null)
	psql -Xq <<-'SQL'
		CREATE TABLE pages AS SELECT n, repeat('x', 900) AS filler FROM generate_series(1, 3000) n;
		VACUUM (ANALYZE, FREEZE) pages;
	SQL
	echo 'select count(*) from pages;' >"$dir/scan.sql"
}

part_d() {
	export THROWAWAY_CPU=0 # the server's, and pgbench's
	local version=v0.0.0-20260908200009-22c9c6c9d4da i k s side stretches=${seconds%.*} name lengths=()
	[ -z "$quick" ] || stretches=2
	[ "$stretches" -ge 1 ] || stretches=1
	[ -x "$dir/benchstat" ] || GOBIN=$dir go install "golang.org/x/perf/cmd/benchstat@$version"
	for k in 5 10; do [ "$k" -ge "$stretches" ] || lengths+=("$k"); done
	lengths+=("$stretches")
	printf 'SELECT 1;\n' >"$dir/select1.sql"
	for i in $(seq "$(share 50)"); do
		name=$dir/$(printf 'd-%03d' "$i")
		if [ ! -e "$name.abba" ]; then
			echo "$(date '+%H:%M:%S') $(basename "$name")" >&2
			throwaway_start "$dir/server"
			trap cleanup EXIT
			rm -f "$name.abba.part" "$name.serial"
			for s in $(seq "$stretches"); do
				for side in $([ $((s % 2)) = 1 ] && echo a b || echo b a); do
					echo "$side $(throwaway_pgbench 1 "$dir/select1.sql")" >>"$name.abba.part"
				done
			done
			for side in a b; do
				for s in $(seq "$stretches"); do
					echo "$side $(throwaway_pgbench 1 "$dir/select1.sql")" >>"$name.serial"
				done
			done
			throwaway_stop
			mv "$name.abba.part" "$name.abba"
		fi
		for s in abba serial; do
			for k in "${lengths[@]}"; do
				for side in a b; do
					awk -v side=$side -v k="$k" '$1 == side && ++n <= k { printf "BenchmarkSelect1 %d %.1f ns/op\n", $2, 1e9 / $2 }' "$name.$s" >"$dir/side-$side"
				done
				(cd "$dir" && ./benchstat -format csv side-a side-b) >"$name.$s.$k.csv" 2>"$dir/log"
			done
		done
	done
}

part_e() {
	local i
	[ "$(nproc)" -gt 1 ] || { echo "part e needs two CPUs" >&2; return 0; }
	taskset -c 1 sh -c 'while :; do :; done' &
	busy=$!
	for i in $(seq "$(share 20)"); do
		measure "$(printf 'e-%03d' "$i")" $((3600000 + i)) --server "$prefix" -b select1 -c 1 -M simple --pin core:0 "${equal_cells[@]}" "${time_per_cell[@]}"
	done
	# shellcheck disable=SC2086 # two of them
	kill $busy
	busy=''
}

for part in ${parts//,/ }; do
	began=$SECONDS
	"part_$part"
	echo "part $part took $((SECONDS - began)) s" >&2
done
report
echo
echo "records in $dir"
