#!/usr/bin/env bash
# Makes .venv with exactly what requirements.lock pins, and this checkout installed in place.
# uv installs three times as fast as pip; it is told what pip has been told (mirrors, certificates),
# and where it fails, or pip knows of something that uv is not told here, pip does the work.
set -euo pipefail
cd "$(dirname "$0")/.."

usable() { "$1" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; }

find_python() {
    local name
    for name in ${PYTHON:-} python3.11 python3.12 python3.13 python3 python; do
        if usable "$name"; then command -v "$name"; return; fi
    done
    echo "Evenkeel needs Python 3.11, 3.12 or 3.13 with venv: install python3.11 and python3.11-venv, or name one: make setup PYTHON=/path/to/python3.11" >&2
    return 1
}

say() { printf 'set-up: %s\n' "$*"; }
py=.venv/bin/python

# usable() also catches an environment whose base Python has gone or that was copied from elsewhere.
if ! usable $py || [ "$($py -c 'import sys; print(sys.prefix)')" != "$(pwd -P)/.venv" ] || ! $py -m pip --version >/dev/null 2>&1; then
    base=$(find_python)
    say "environment .venv from $base ($("$base" -V))"
    "$base" -m venv --clear .venv
fi

translate_pip() {
    local line name value
    while IFS= read -r line; do
        name=${line%%=*} value=${line#*=}
        value=${value#\'} value=${value%\'}
        case ${name##*.} in
            index-url) export UV_DEFAULT_INDEX=$value ;;
            extra-index-url) export UV_INDEX=$value ;;
            find-links) export UV_FIND_LINKS=${value// /,} ;;
            cert) export SSL_CERT_FILE=${SSL_CERT_FILE:-$value} ;;
            timeout | default-timeout) export UV_HTTP_TIMEOUT=${UV_HTTP_TIMEOUT:-$value} ;;
            proxy | client-cert | trusted-host | no-index | no-binary | only-binary) return 1 ;;
        esac
    done < <($py -m pip config list 2>/dev/null)
}

with_uv() {
    [ -z "${EVENKEEL_PIP:-}" ] || return 1
    translate_pip || return 1
    local pinned
    pinned=$(sed -n '/^uv==/,/[^\\]$/p' requirements.lock)
    $py -m pip install -q --disable-pip-version-check --require-hashes -r <(printf '%s\n' "$pinned") || return 1
    .venv/bin/uv pip sync -q --compile-bytecode --python $py --require-hashes requirements.lock
}

say "Python packages from requirements.lock (about half a minute; a minute or two by pip)"
if ! with_uv; then
    say "installing with pip"
    $py -m pip install -q --disable-pip-version-check --require-hashes -r requirements.lock
fi
$py -m pip --version >/dev/null 2>&1 || $py -m ensurepip --default-pip >/dev/null
$py -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation --no-index -e .
