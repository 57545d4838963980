#!/bin/sh
# Installs what developing llmgwd needs and is not there yet: the distribution's packages, then a virtual environment.
# usage: PYTHON=/usr/bin/python3 VENV=.venv packaging/setup.sh
set -eu

say() { echo "setup: $*" >&2; }

# One line a distribution: how to ask for a package, how to install, the packages.
if command -v dpkg-query >/dev/null; then
    there() { [ "$(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }
    get() {
        export DEBIAN_FRONTEND=noninteractive
        # A new machine may be busy with its own updates.
        apt-get update -qq && apt-get install -qq -y -o DPkg::Lock::Timeout=300 --no-install-recommends "$@" >/dev/null
    }
    # A user's systemd and bus, procps and iproute2, for the tests; libgomp1 for the demonstration's llama-server.
    packages="systemd-container dbus dbus-user-session libpam-systemd procps iproute2 libgomp1 python3-venv"
    packages="$packages python3-dbus-next python3-sdnotify python3-systemd python3-psutil python3-aiohttp"
elif command -v rpm >/dev/null; then
    there() { rpm --quiet --query --whatprovides "$1"; }
    get() { dnf install -q -y "$@"; }
    packages="systemd-container dbus dbus-daemon procps-ng iproute libgomp tar findutils python3"
    packages="$packages python3-dbus-next python3-sdnotify python3-systemd python3-psutil python3-aiohttp"
else
    say "knows dpkg and rpm only; see packaging/setup.sh for what has to be installed"
    exit 1
fi

missing=
for package in $packages; do there "$package" || missing="$missing $package"; done
if [ -n "$missing" ]; then
    if [ "$(id -u)" != 0 ]; then
        say "needs root to install what is missing:$missing"
        exit 1
    fi
    say "installs$missing"
    # shellcheck disable=SC2086 -- a list of names
    get $missing || { say "could not install what is missing"; exit 1; }
fi

if ! "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    say "needs Python 3.11 or newer, which $PYTHON is not"
    exit 1
fi
# Sees the distribution's packages: the product runs on those, in development as well.
# Made anew where it was left half made.
if ! "$VENV/bin/python" -m pip --version >/dev/null 2>&1; then
    say "makes $VENV"
    "$PYTHON" -m venv --clear --system-site-packages "$VENV"
fi
"$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --editable '.[dev,fast]' || {
    say "could not install Python packages from the index into $VENV"
    exit 1
}
