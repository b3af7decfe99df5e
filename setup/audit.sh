#!/usr/bin/env bash
# Asks OSV, or who speaks its protocol at OSV_URL, for known vulnerabilities of what
# requirements.lock pins. Ends with 0 if there are none, 1 if there are, 2 if nobody answers.
set -uo pipefail
cd "$(dirname "$0")/.."

said=$(mktemp) && trap 'rm -f "$said"' EXIT
.venv/bin/pip-audit -r requirements.lock --no-deps --disable-pip --progress-spinner off \
    -s osv ${OSV_URL:+--osv-url "$OSV_URL"} 2>"$said"
code=$?
# Both what it finds and what stops it end it with 1; only in the first case it counts them.
if [ $code -ne 0 ] && ! grep -q '^Found ' "$said"; then
    echo "audit: no advisories: $(tail -n 1 "$said")" >&2
    exit 2
fi
tail -n 1 "$said" >&2
exit $code
