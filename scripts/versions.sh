#!/usr/bin/env bash
# Two versions of one origin in one matrix, ten runs, both modes, with a
# setting that the older one lacks:
#
#   scripts/versions.sh [OLD NEW]           13 and 18 if nothing is given
set -euo pipefail
cd "$(dirname "$0")/.."
go run ./cmd/pgtare run --server "${1:-13}" --server "${2:-18}" --set track_wal_io_timing=off,on \
	--mode per-statement,single-transaction --runs 10 --seed 2026
