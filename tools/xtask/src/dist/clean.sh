# Installs the package that is named in an empty Debian, does what a user does, and purges it. Fails at the first thing that is not as
# docs/releases.md promises.
set -eu
package=$1
cd /
# The command asks the system for the home of its user.
user=$(getent passwd "$(id -u)" | cut -d: -f6)
export HOME="$user" LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
unset LEASEHOLD_STORE XDG_STATE_HOME XDG_CONFIG_HOME LANG LANGUAGE 2>/dev/null || true

fail() {
    echo "check: $*" >&2
    exit 1
}

seen() {
    echo "    $*"
}

# All files, without the records of dpkg, apt and man-db themselves.
files() {
    find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /tmp \
        -o -path /var/cache -o -path /var/lib/apt -o -path /var/lib/dpkg -o -path /var/log \) -prune -o -print | sort
}

for program in cargo rustc gcc cc; do
    if command -v $program >/dev/null; then fail "this Debian is not empty: it has $program"; fi
done
# Settings of the user, as the units explain them: no package may take them away.
for unit in serve cache-relay; do
    mkdir -p /etc/systemd/system/leasehold-$unit.service.d
done
cat >/etc/systemd/system/leasehold-serve.service.d/override.conf <<'END'
[Service]
User=daemon
Environment="OPTIONS=--store main=redis://cache --listen unix:/run/leasehold/serve.sock"
END
cat >/etc/systemd/system/leasehold-cache-relay.service.d/override.conf <<'END'
[Service]
LoadCredential=db:/etc/leasehold/db-password
Environment="OPTIONS=--database postgres://app@db/app?password-file=%d/db --store redis://cache"
END
files >/tmp/before

apt-get install --yes --quiet=2 "$package" >/tmp/apt 2>&1 || { cat /tmp/apt; fail "apt-get install fails"; }
if ldd /usr/bin/leasehold 2>&1 | grep -q '=>'; then fail "the program needs a library: $(ldd /usr/bin/leasehold)"; fi
leasehold --version >/dev/null || fail "the program does not start"
seen "installed: $(leasehold --version), $(dpkg -L leasehold | wc -l) paths"

# The program has each store: it looks for a server where none is.
for store in etcd://127.0.0.1:1 mysql://127.0.0.1:1/app postgres://127.0.0.1:1/app redis://127.0.0.1:1 zookeeper://127.0.0.1:1; do
    if timeout 60 leasehold --store $store status job >/tmp/answer 2>&1; then fail "$store: there is no server"; fi
    grep -q 'running?' /tmp/answer || fail "the program lacks $store: $(cat /tmp/answer)"
done
for store in etcds rediss zookeepers; do
    if timeout 60 leasehold --store $store://127.0.0.1:1 status job >/tmp/answer 2>&1; then fail "$store: there is no server"; fi
    if grep -Eq 'needs the feature|unknown scheme' /tmp/answer; then fail "the program lacks $store: $(cat /tmp/answer)"; fi
done
timeout 60 leasehold --store sqlite:/tmp/locks.db run job -- true >/tmp/answer 2>&1 || fail "sqlite: $(cat /tmp/answer)"
seen "has: etcd, MySQL, PostgreSQL, Redis, SQLite, ZooKeeper, and TLS"

leasehold run job -- true || fail "leasehold run job -- true: exit code $?"
if leasehold run job -- false; then fail "the exit code of the command is lost"; fi
cat >/tmp/holder <<'END'
# Another process, which does not know of the run around it.
if env -i HOME="$HOME" PATH="$PATH" leasehold run job --no-wait -- true; then exit 1; fi
leasehold status job >/tmp/status
END
leasehold run job -- sh /tmp/holder >/tmp/held 2>&1 || fail "two hold the lock, or status does not show the holder: $(cat /tmp/held)"
seen "held: by one process at a time, which status shows"

pages=0
for page in $(dpkg -L leasehold | grep '/man/man1/.*\.gz$'); do
    name=$(basename "$page" .1.gz)
    man "$name" >/tmp/page 2>/tmp/complaints || fail "man $name: $(cat /tmp/complaints)"
    grep -q NAME /tmp/page || fail "man $name shows no page"
    man --warnings --encoding=UTF-8 "$name" 2>/tmp/complaints >/dev/null
    if [ -s /tmp/complaints ]; then fail "man $name: $(head -n 3 /tmp/complaints)"; fi
    pages=$((pages + 1))
done
[ "$pages" -gt 1 ] || fail "there are $pages manual pages"
man --locale=zh_CN.UTF-8 --path leasehold | grep -q zh_CN || fail "there is no Chinese page"
seen "read: $pages manual pages in English, and one in Chinese"

# Each shell completes `leasehold stat` by itself, as it does for a user who has just installed the package.
export HOME=/tmp/shells
mkdir -p $HOME
bash -c '. /usr/share/bash-completion/bash_completion && _completion_loader leasehold
    COMP_WORDS=(leasehold stat) COMP_CWORD=1 && _leasehold leasehold stat leasehold
    printf "%s\n" "${COMPREPLY[@]}"' >/tmp/completed 2>&1 || true
grep -qx status /tmp/completed || fail "bash completes to: $(cat /tmp/completed)"
fish -c 'complete -C "leasehold stat"' >/tmp/completed 2>&1 || true
grep -q '^status' /tmp/completed || fail "fish completes to: $(cat /tmp/completed)"
zsh -fc 'autoload -Uz compinit && compinit -u -d /tmp/dump && print $_comps[leasehold] && autoload +X _leasehold' >/tmp/completed 2>&1 || true
grep -qx _leasehold /tmp/completed || fail "zsh has no completion: $(cat /tmp/completed)"
seen "completed: bash, fish, zsh"
export HOME="$user"

for unit in /usr/lib/systemd/system/leasehold-*.service /usr/share/doc/leasehold/examples/leasehold-example.service \
    /usr/share/doc/leasehold/examples/leasehold-example.timer; do
    systemd-analyze verify "$unit" >/tmp/complaints 2>&1 || fail "$unit: $(cat /tmp/complaints)"
    if grep -i leasehold /tmp/complaints; then fail "$unit is not clean"; fi
done
[ -z "$(find /etc/systemd/system -name 'leasehold*' -type l)" ] || fail "a unit is enabled"
seen "verified: $(ls /usr/lib/systemd/system/leasehold-*.service | wc -l) units, and the example of a timer; none is enabled"

apt-get purge --yes --quiet=2 leasehold >/tmp/apt 2>&1 || { cat /tmp/apt; fail "apt-get purge fails"; }
files >/tmp/after
comm -13 /tmp/before /tmp/after | grep -v "^$HOME/.local" >/tmp/left || true
if [ -s /tmp/left ]; then fail "purge leaves $(cat /tmp/left)"; fi
comm -23 /tmp/before /tmp/after >/tmp/lost
if [ -s /tmp/lost ]; then fail "purge has removed $(cat /tmp/lost)"; fi
[ -d "$HOME/.local/state/leasehold" ] || fail "purge has removed the locks"
seen "purged: nothing is left but the locks and the user's own settings"
