# Installs packages with no service started: install.sh POLICY-FILE PACKAGE...
set -eu
policy=$1
shift
export DEBIAN_FRONTEND=noninteractive

# A policy of the machine's own is left alone; one that a killed run of this script left is not.
mark='# cargo xtask test: no service starts while its packages are installed'
if { [ ! -e "$policy" ] && [ ! -L "$policy" ]; } || grep -qxF "$mark" "$policy"; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 130' HUP INT TERM
    printf '#!/bin/sh\n%s\nexit 101\n' "$mark" >"$policy"
    chmod 755 "$policy"
fi

apt() {
    apt-get -o DPkg::Lock::Timeout=120 -qq "$@"
}

updated=
if ! apt install --simulate --no-install-recommends "$@" >/dev/null 2>&1; then
    apt update
    updated=1
fi
if ! apt install -y --no-install-recommends "$@"; then
    [ -z "$updated" ] || exit 1
    apt update # The lists may name versions that the mirror has dropped.
    apt install -y --no-install-recommends "$@"
fi
