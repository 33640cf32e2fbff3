#!/usr/bin/env bash
# Kills pgtare (SIGKILL) at random moments while it weighs a setting of the
# configuration on a running server under switched clock sources, has "pgtare
# restore" put everything back, and compares: the server's configuration, its
# schemas, the clock source, and pgtare's processes. Ends with 1 at the first
# difference. Switching the clock source needs root and a machine that has two; elsewhere
# that part is left out, and said so.
#
#   scripts/kill-and-restore.sh [-n KILLS] [-s SEED]
#
#   -n  how often (20)
#   -s  seed of the moments (by chance, and printed)
set -euo pipefail
cd "$(dirname "$0")/.."
kills=20 seed=$RANDOM
usage() { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' scripts/kill-and-restore.sh; }
while getopts n:s:h o; do
	case $o in
	n) kills=$OPTARG ;;
	s) seed=$OPTARG ;;
	h) usage; exit ;;
	*) usage >&2; exit 2 ;;
	esac
done
[[ $kills =~ ^[1-9][0-9]*$ && $seed =~ ^[0-9]+$ ]] || { usage >&2; exit 2; }
dir=$(mktemp -d "${TMPDIR:-/tmp}/pgtare-kill.XXXXXX")
chmod 755 "$dir"
. scripts/throwaway.sh
go build -o "$dir/pgtare" ./cmd/pgtare
throwaway_start "$dir/server"
child=''
# However this ends, the machine is put back while the journal is there.
cleanup() {
	[ -z "$child" ] || kill -KILL "$child" 2>/dev/null || true
	local kept=''
	"$dir/pgtare" restore >&2 || kept=1
	[ -z "$clock" ] || [ "$(cat $source/current_clocksource)" = "$clock" ] || echo "$clock" >$source/current_clocksource || true
	throwaway_stop
	if [ -n "$kept" ]; then
		echo "kept for a look: $dir" >&2
	else
		rm -rf "$dir"
	fi
}
clock=''
source=/sys/devices/system/clocksource/clocksource0
trap cleanup EXIT
export XDG_STATE_HOME=$dir/state

clocks=()
if [ "$(id -u)" = 0 ] && [ -w $source/current_clocksource ]; then
	clock=$(cat $source/current_clocksource)
	for other in $(cat $source/available_clocksource); do
		if [ "$other" != "$clock" ]; then
			clocks=(--clocksource "$clock,$other")
			break
		fi
	done
fi
[ ${#clocks[@]} -gt 0 ] || echo "no second clock source that this user may switch to: left out" >&2

# A setting of a user's own must survive, comments in the file need not.
psql -Xqc "ALTER SYSTEM SET checkpoint_timeout = '7min'" -c "ALTER SYSTEM SET log_checkpoints = off" -c "SELECT pg_reload_conf()" >/dev/null
state() {
	echo "clock source $(cat $source/current_clocksource 2>/dev/null || echo unknown)"
	psql -XAtq <<-'SQL'
		SELECT 'setting ' || name || ' = ' || setting || ' from ' || source FROM pg_settings WHERE name IN ('log_checkpoints', 'checkpoint_timeout') ORDER BY name;
		SELECT 'file ' || name || ' = ' || setting FROM pg_file_settings WHERE sourcefile LIKE '%auto.conf' ORDER BY name;
		SELECT 'schema ' || nspname FROM pg_namespace WHERE nspname !~ '^pg_' ORDER BY 1;
		SELECT 'sessions ' || count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid();
	SQL
	echo "processes $(pgrep -cf "^$dir/pgtare" || true)"
}
# settled is state, when the backends of the dead have noticed.
settled() {
	local i text
	for i in $(seq 50); do
		text=$(state)
		[[ $text != *"sessions 0"* || $text != *"processes 0"* ]] || break
		sleep 0.1
	done
	echo "$text"
}
before=$(settled)
echo "seed $seed; before:"
echo "$before"

RANDOM=$seed
changed=0
for i in $(seq "$kills"); do
	rm -f "$dir/record"
	"$dir/pgtare" run --server "host=$PGHOST user=postgres dbname=postgres" --set log_checkpoints=off,on --allow-alter-system "${clocks[@]}" \
		-b insert --runs 3 -T 0.3 -o "$dir/record" >"$dir/out" 2>&1 &
	child=$!
	after=$(awk "BEGIN { print $RANDOM / 32768 * 9 }")
	sleep "$after"
	if ! kill -KILL "$child" 2>/dev/null; then
		echo "it had ended before $after s:" >&2
		cat "$dir/out" >&2
		exit 1
	fi
	wait "$child" 2>/dev/null || true
	child=''
	midway=$(state)
	[ "$(grep -v '^sessions' <<<"$midway")" = "$(grep -v '^sessions' <<<"$before")" ] || changed=$((changed + 1))
	did=$("$dir/pgtare" restore 2>&1) || { echo "restore failed: $did" >&2; exit 1; }
	now=$(settled)
	if [ "$now" != "$before" ]; then
		printf 'after kill %d (at %s s) and restore (%s):\n' "$i" "$after" "$did"
		diff <(echo "$before") <(echo "$now") || true
		exit 1
	fi
	printf 'kill %d at %.2f s: as before (%s)\n' "$i" "$after" "$(head -n 1 <<<"$did")"
done
echo "$kills kills, $changed of them had left something changed, and everything was put back each time"
