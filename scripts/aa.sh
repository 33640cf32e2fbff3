#!/usr/bin/env bash
# Equal cells: how wide the intervals are when nothing differs, and how often
# an alarm is raised. Every matrix has ten equal cells (two references and
# eight cells) and a new start; seeds are fixed beforehand. Beside it the real
# pgbench, pinned alike, two runs in turn for the same time per run.
#
#   scripts/aa.sh [-n MATRICES] [-T SECONDS_PER_CELL] [-d DIRECTORY]
#
# Ends with a table. The records stay in the directory; a matrix whose record
# is there already is not measured again, so that an interrupted run goes on.
set -euo pipefail
cd "$(dirname "$0")/.."
matrices=20 seconds=6 dir=
while getopts n:T:d: o; do
	case $o in
	n) matrices=$OPTARG ;;
	T) seconds=$OPTARG ;;
	d) dir=$OPTARG ;;
	*) exit 2 ;;
	esac
done
dir=${dir:-$(mktemp -d "${TMPDIR:-/tmp}/pgtare-aa.XXXXXX")}
mkdir -p "$dir"
go build -o "$dir/pgtare" ./cmd/pgtare
go build -o "$dir/evidence" ./scripts/evidence
. scripts/throwaway.sh

per_run=$(awk "BEGIN { print $seconds / 5 }")
for i in $(seq "$matrices"); do
	record=$(printf '%s/matrix-%03d.jsonl' "$dir" "$i")
	if [ ! -e "$record" ]; then
		"$dir/pgtare" run -b select1 --set none --controls 9 --pin core:0 --runs 5 -T "$per_run" --seed $((1000 + i)) -o "$record.part" >/dev/null 2>"$dir/log"
		mv "$record.part" "$record"
	fi
	pair=$(printf '%s/pgbench-%03d' "$dir" "$i")
	if [ ! -e "$pair" ]; then
		throwaway_start "$dir/server"
		printf 'SELECT 1;\n' >"$dir/select1.sql"
		a=$(throwaway_pgbench "$seconds" "$dir/select1.sql")
		b=$(throwaway_pgbench "$seconds" "$dir/select1.sql")
		throwaway_stop
		echo "$a $b" >"$pair"
	fi
	printf '\r%d of %d matrices' "$i" "$matrices" >&2
done
printf '\n' >&2
cat "$dir"/pgbench-[0-9]* >"$dir/pgbench-pairs"
"$dir/evidence" equal -pgbench "$dir/pgbench-pairs" "$dir"/matrix-*.jsonl
echo "records in $dir"
