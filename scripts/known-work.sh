#!/usr/bin/env bash
# Work of known size: a statement that counts to n, for n = 1000, 2000, 3000.
# What the step from 1000 to 3000 costs must be twice the step to 2000, in ns
# of elapsed time with 1 client, and in ns of backend CPU with 1 and 8 clients
# (8 clients share CPUs, so that their latency holds each other's work).
#
#   scripts/known-work.sh [-T SECONDS] [-r RUNS] [-d DIRECTORY]
#
# Two forms are measured. In the select list nothing is kept, and the work is
# linear. In FROM the rows are kept in memory that glibc gives back to the
# kernel after every statement once it exceeds its trim threshold: beyond some
# 2000 rows each execution takes page faults again (minor_faults in the
# record), so that the true cost is not linear, and pgtare should say so. With
# n = 500, 1000, 1500 that form is linear, too.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=1 runs=10 dir=
while getopts T:r:d: o; do
	case $o in
	T) seconds=$OPTARG ;;
	r) runs=$OPTARG ;;
	d) dir=$OPTARG ;;
	*) exit 2 ;;
	esac
done
dir=${dir:-$(mktemp -d "${TMPDIR:-/tmp}/pgtare-known.XXXXXX")}
mkdir -p "$dir"
go build -o "$dir/pgtare" ./cmd/pgtare
go build -o "$dir/evidence" ./scripts/evidence
echo 'select count(*) from (select generate_series(1, :n)) s;' >"$dir/list.sql"
echo 'select count(*) from generate_series(1, :n);' >"$dir/from.sql"

measure() { # form values clients
	local record="$dir/$1-${2##*,}-$3.jsonl"
	rm -f "$record"
	"$dir/pgtare" run -f "$dir/$1.sql" --var "n=$2" --set none -c "$3" -T "$seconds" --runs "$runs" --seed 2026 -o "$record" >"$record.txt" 2>"$dir/log"
	printf '\n%s, n=%s, clients: %s\n' "$(cat "$dir/$1.sql")" "$2" "$3"
	"$dir/evidence" known "$record"
}
for clients in 1 8; do
	measure list 1000,2000,3000 $clients
	measure from 500,1000,1500 $clients
	measure from 1000,2000,3000 $clients
done
printf '\nrecords and tables in %s\n' "$dir"
