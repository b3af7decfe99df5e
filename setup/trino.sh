#!/usr/bin/env bash
# Makes .jars/trino-VERSION: an unpacked server of Trino (2 GB with its archive), in the version of docs/how-to/read.md.
# Prints the variables that run the page's section: TRINO_HOME, and TRINO_JAVA for its Java of 24 or newer.
set -euo pipefail
cd "$(dirname "$0")/.."

version=$(sed -n 's/.*`io\.trino:trino-server:\([0-9]*\):tar\.gz`.*/\1/p' docs/how-to/read.md)
home=$PWD/.jars/trino-$version

# Runners of GitHub name each Java that they have: JAVA_HOME_25_X64.
java=
for found in "${TRINO_JAVA:-}" "${JAVA_HOME_25_X64:-}" "${JAVA_HOME:-}" "${JVMS:-/usr/lib/jvm}"/*; do
    [ -x "$found/bin/java" ] || continue
    number=$("$found/bin/java" -XshowSettings:properties -version 2>&1 | sed -n 's/^ *java\.specification\.version = \([0-9]*\).*/\1/p')
    if [ "${number:-0}" -ge 24 ]; then java=$found; break; fi
done
[ -n "$java" ] || { echo "Trino $version needs Java 24 or newer: install one, and set TRINO_JAVA to its home" >&2; exit 1; }

if [ ! -d "$home" ]; then
    command -v mvn >/dev/null || { echo "mvn fetches Trino, and is not here: install Maven (Debian: apt-get install maven)" >&2; exit 1; }
    echo "set-up: Trino $version (0.8 GB)" >&2
    mkdir -p .jars .run
    rm -rf .jars/trino.new
    mvn -q -B dependency:copy -Dartifact="io.trino:trino-server:$version:tar.gz" -DoutputDirectory="$PWD/.jars/trino.new" >&2
    tar -xzf ".jars/trino.new/trino-server-$version.tar.gz" -C .jars/trino.new
    mv ".jars/trino.new/trino-server-$version" "$home"
    rm -rf .jars/trino.new
fi
printf 'export TRINO_HOME=%q TRINO_JAVA=%q\n' "$home" "$java"
