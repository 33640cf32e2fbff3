# Sourced by scripts that weigh the engine against the real pgbench in pairs,
# which set pairs, seconds and sizes before. Their heads, up to `set -euo
# pipefail`, are their help.
#
#   pairs_options "$@"     reads -n PAIRS, -T SECONDS, -c "CLIENTS ..."
#   die MESSAGE            says that nothing could be measured: exit status 2
#   find_program NAME      prints the newest one's path: BENCH_BINDIR, Debian's
#                          place, PATH (Debian's /usr/bin/pgbench is a wrapper)
#
# cpu is then the one on which all runs: BENCH_CPU, or the last that may be used.

usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0"; }

die() {
	echo "$(basename "$0" .sh): $*" >&2
	exit 2
}

pairs_options() {
	local option OPTIND=1
	while getopts n:T:c:h option; do
		case $option in
		n) pairs=$OPTARG ;;
		T) seconds=$OPTARG ;;
		c) sizes=$OPTARG ;;
		h) usage; exit 0 ;;
		*) usage >&2; exit 2 ;;
		esac
	done
	[[ $sizes =~ ^[1-9][0-9]*( +[1-9][0-9]*)*$ ]] || die "-c takes numbers of clients"
	[[ $pairs =~ ^[1-9][0-9]*$ && $seconds =~ ^[1-9][0-9]*$ ]] || die "-n and -T take whole numbers from 1"
	cpu=${BENCH_CPU:-$(taskset -cp $$ | sed 's/.*[^0-9]//')}
}

find_program() {
	local dir
	for dir in ${BENCH_BINDIR:-} $(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -t/ -k5,5nr) ${PATH//:/ }; do
		[ -x "$dir/$1" ] && { echo "$dir/$1"; return; }
	done
	die "no $1 found: install PostgreSQL, or say where it is with BENCH_BINDIR=DIR"
}
