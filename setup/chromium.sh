#!/usr/bin/env bash
# Sees to a Chromium for the tests of pages: one that is there, else Debian's, with apt where that is allowed
# without asking. Where it cannot be had, those tests are skipped and say so: this never fails.
# `playwright install chromium` is no way instead: it downloads from cdn.playwright.dev, which a network with package
# registries alone does not reach (tried 2026-11-24: "Failed to download Chrome for Testing"), and apt does.
set -euo pipefail

for program in chromium chromium-browser google-chrome google-chrome-stable; do
    if command -v "$program" >/dev/null; then exit; fi
done
root=()
if [ "$(id -u)" != 0 ]; then root=(sudo -n); fi
if command -v apt-get >/dev/null && "${root[@]}" true 2>/dev/null; then
    echo "set-up: no Chromium here, installing one with apt for the tests of pages"
    log=$(mktemp)
    if { "${root[@]}" apt-get update -q && DEBIAN_FRONTEND=noninteractive "${root[@]}" apt-get install -q -y --no-install-recommends chromium; } >"$log" 2>&1; then
        rm -f "$log"
        exit
    fi
    tail -n 3 "$log"
fi
echo "set-up: no Chromium to be had: the tests of pages will be skipped"
