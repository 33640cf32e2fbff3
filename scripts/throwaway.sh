# Sourced by scripts: a throw-away PostgreSQL of the newest local installation
# with PostgreSQL's own defaults, on a Unix socket, and the real pgbench on it.
# As root the server runs as postgres. THROWAWAY_CPU=N keeps the server on one
# CPU; THROWAWAY_BINDIR=DIR takes the PostgreSQL there.
#
#   throwaway_start DIRECTORY            sets PGHOST, PGUSER, PGDATABASE
#   throwaway_pgbench SECONDS SCRIPT     prints tps; the client on the server's CPU
#   throwaway_stop                       also called when the shell exits

throwaway_dir=

throwaway_as() {
	if [ "$(id -u)" = 0 ]; then
		setpriv --reuid postgres --regid postgres --init-groups "$@"
	else
		"$@"
	fi
}

throwaway_start() {
	throwaway_dir=$(readlink -f "$1" 2>/dev/null || echo "$1")
	local bin=${THROWAWAY_BINDIR:-} pin=()
	[ -z "${THROWAWAY_CPU:-}" ] || pin=(taskset -c "$THROWAWAY_CPU")
	[ -n "$bin" ] || bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
	[ -n "$bin" ] || bin=$(dirname "$(command -v postgres)")
	rm -rf "$throwaway_dir"
	mkdir -p "$throwaway_dir"
	chmod 755 "$(dirname "$throwaway_dir")"
	[ "$(id -u)" != 0 ] || chown postgres: "$throwaway_dir"
	(
		cd "$throwaway_dir"
		throwaway_as "$bin/initdb" -D data -U postgres -A trust --no-sync >setup.log 2>&1
		throwaway_as "${pin[@]}" "$bin/pg_ctl" -D data -w -l server.log -o "-c listen_addresses= -c unix_socket_directories=$throwaway_dir" start >>setup.log 2>&1
	) || { cat "$throwaway_dir"/*.log >&2; return 1; }
	throwaway_bin=$bin
	export PGHOST=$throwaway_dir PGUSER=postgres PGDATABASE=postgres
	trap throwaway_stop EXIT
}

throwaway_pgbench() {
	local pgbench=$throwaway_bin/pgbench # Debian's /usr/bin/pgbench is a Perl script that looks for it
	[ -x "$pgbench" ] || pgbench=pgbench
	taskset -c "$THROWAWAY_CPU" "$pgbench" -n -f "$2" -T "$1" -c 1 2>/dev/null | awk '/^tps = /{ print $3 }'
}

throwaway_stop() {
	[ -n "$throwaway_dir" ] || return 0
	(cd "$throwaway_dir" && throwaway_as "$throwaway_bin/pg_ctl" -D data -m immediate stop >/dev/null 2>&1) || true
	rm -rf "$throwaway_dir"
	throwaway_dir=
}
