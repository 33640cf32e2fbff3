#!/usr/bin/env bash
# A PostgreSQL release as its authors made it, from Debian's source packages:
#
#   scripts/fetch-postgres-source.sh MAJOR [DIRECTORY]     DIRECTORY: postgresql-X.Y
#
# and then   pgtare run --server src:DIRECTORY
#
# What has no release yet comes as its newest beta or release candidate.
# apt fetches and verifies it, from the mirrors that this machine is configured
# for. The machine's configuration is left as it is: a private one, thrown away
# at the end, adds the source packages, and of the main mirror the suites that
# follow this machine's own, where the later majors are. Only the upstream
# tarball is taken, without Debian's patches. Building 17 and later needs bison
# and flex.
set -euo pipefail

fail() { echo "fetch-postgres-source: $*" >&2; exit "${status:-1}"; }

major=${1:-} to=${2:-}
[[ $# -le 2 && $major =~ ^[0-9]+$ ]] || status=2 fail "usage: $0 MAJOR [DIRECTORY], e.g. $0 18"
[ -z "$to" ] || [ ! -e "$to" ] || status=2 fail "$to is there already; remove it or name another directory"
command -v apt-get >/dev/null || fail "there is no apt-get; take the release from PostgreSQL's own site"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work" # apt downloads as a user of its own
mkdir -p "$work"/{etc/sources.list.d,lists/partial,cache/archives/partial,get}
private=(-o "Dir::Etc::sourcelist=$work/etc/sources.list" -o "Dir::Etc::sourceparts=$work/etc/sources.list.d"
	-o "Dir::State::lists=$work/lists" -o "Dir::Cache=$work/cache")

# What apt is configured for: repository, suite, component, Debian's name for
# the repository.
apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(COMPONENT) $(LABEL)' 'ORIGIN: Debian' 'IDENTIFIER: Packages' | sort -u >"$work/own"
read -r mirror own < <(awk '$4 == "Debian" && $3 == "main" && $2 !~ /-/ { print $1, $2; exit }' "$work/own") ||
	fail "apt has no list of a Debian mirror; run apt-get update first (on other distributions: take the release from PostgreSQL's own site)"
signed=/usr/share/keyrings/debian-archive-keyring.gpg
options=
[ ! -e "$signed" ] || options="[signed-by=$signed] "

# Each suite in its turn, the machine's own first: a list takes seconds.
for suite in "$own" stable testing unstable experimental; do
	if [ "$suite" = "$own" ]; then
		awk -v o="$options" '{ print "deb-src " o $1, $2, $3 }' "$work/own"
	else
		echo "deb-src $options$mirror $suite main"
	fi >"$work/etc/sources.list"
	echo "looking for PostgreSQL $major in $suite" >&2
	if ! apt-get "${private[@]}" -qq update >"$work/log" 2>&1; then
		echo "no list of $suite: $(grep -m 1 '^[EW]:' "$work/log" || tail -n 1 "$work/log")" >&2
		continue
	fi
	# A mirror may lack the newest that its list names: the next older will do.
	versions=$(apt-cache "${private[@]}" showsrc --only-source "postgresql-$major" 2>/dev/null | sed -n 's/^Version: //p' | sort -rVu) || true
	for version in $versions; do
		if (cd "$work/get" && apt-get "${private[@]}" -qq source --download-only --tar-only "postgresql-$major=$version") >"$work/log" 2>&1; then
			tarball=$(find "$work/get" -name '*.orig.tar.*' ! -name '*.asc')
			[ -n "$tarball" ] || fail "the source package of $suite holds no upstream tarball"
			break 2
		fi
		echo "apt could not fetch $version from $suite: $(grep -m 1 '^E:' "$work/log" || tail -n 1 "$work/log")" >&2
		rm -f "$work"/get/*
	done
done
[ -n "${tarball:-}" ] || fail "no source package postgresql-$major could be had from $own, stable, testing, unstable or experimental"

mkdir "$work/tree"
tar -xf "$tarball" -C "$work/tree" --no-same-owner
tree=$(echo "$work"/tree/*)
[ -d "$tree" ] || fail "the tarball holds more than one directory"
to=${to:-$(basename "$tree")}
[ ! -e "$to" ] || fail "$to is there already; remove it or name another directory"
mkdir -p "$(dirname "$to")"
chmod -R u+rwX,go+rX "$tree"
mv "$tree" "$to"
echo "$(basename "$tarball") from $suite" >&2
echo "$to"
