#!/usr/bin/env bash
# Asks OSV, or who speaks its protocol at OSV_URL, for known vulnerabilities of what the two locks pin:
# that of this checkout and that of its docs. Ends with 0 if there are none, 1 if there are, 2 if nobody
# answers.
set -uo pipefail
cd "$(dirname "$0")/.."

said=$(mktemp) && trap 'rm -f "$said"' EXIT
worst=0
# One after the other: pip-audit takes no two files that pin one package.
for lock in requirements.lock setup/docs/requirements.lock; do
    .venv/bin/pip-audit -r "$lock" --no-deps --disable-pip --progress-spinner off \
        -s osv ${OSV_URL:+--osv-url "$OSV_URL"} 2>"$said"
    code=$?
    # Both what it finds and what stops it end it with 1; only in the first case it counts them.
    if [ $code -ne 0 ] && ! grep -q '^Found ' "$said"; then
        echo "audit: no advisories: $(tail -n 1 "$said")" >&2
        exit 2
    fi
    echo "$lock: $(tail -n 1 "$said")" >&2
    [ $code -eq 0 ] || worst=$code
done
exit $worst
