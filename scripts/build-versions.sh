#!/usr/bin/env bash
# PostgreSQL's majors, built from source alike and compared in one run:
#
#   scripts/build-versions.sh [-d DIRECTORY] [MAJOR ...] [-- FLAG ...]
#
# 15 17 18 19 if no major is given; the first is the baseline. The trees come
# from scripts/fetch-postgres-source.sh and stay in DIRECTORY (default: the
# user's cache), the builds in pgtare's cache, so that the second time neither
# is made anew. A build takes 3 to 5 minutes on two CPUs. FLAGs are those of
# pgtare run.
set -euo pipefail
cd "$(dirname "$0")/.."

sources=${XDG_CACHE_HOME:-$HOME/.cache}/pgtare-sources
majors=() servers=()
while [ $# -gt 0 ]; do
	case $1 in
	-d) sources=${2:?-d needs a directory}; shift 2 ;;
	--) shift; break ;;
	*[!0-9]* | '') sed -n '2,/^set/{/^#/p}' "$0" >&2; exit 2 ;;
	*) majors+=("$1"); shift ;;
	esac
done
[ ${#majors[@]} -gt 0 ] || majors=(15 17 18 19)
mkdir -p "$sources"
for m in "${majors[@]}"; do
	[ -d "$sources/$m" ] || scripts/fetch-postgres-source.sh "$m" "$sources/$m" >/dev/null
	servers+=(--server "v$m=src:$sources/$m")
done
exec go run ./cmd/pgtare run "${servers[@]}" --set none "$@"
