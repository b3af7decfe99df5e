#!/usr/bin/env bash
# Prints the home of a Java 17 to 22 (Hadoop 3.4 starts on no newer one): JAVA_HOME, else PATH, else /usr/lib/jvm (or JVMS), else installed
# with apt where that is allowed without asking.
set -euo pipefail

# The home of a java command that is 17 to 22, or nothing.
home_of() {
    local java version
    java=$(command -v "$1" 2>/dev/null) || return 1
    version=$("$java" -XshowSettings:properties -version 2>&1 | sed -n 's/^ *java\.specification\.version = \([0-9]*\).*/\1/p')
    [ "${version:-0}" -ge 17 ] && [ "$version" -le 22 ] || return 1
    "$java" -XshowSettings:properties -version 2>&1 | sed -n 's/^ *java\.home = //p'
}

find_java() {
    local java
    for java in ${JAVA_HOME:+"$JAVA_HOME/bin/java"} java "${JVMS:-/usr/lib/jvm}"/*/bin/java; do
        if home_of "$java"; then return; fi
    done
    return 1
}

find_java && exit
root=()
if [ "$(id -u)" != 0 ]; then root=(sudo -n); fi
if command -v apt-get >/dev/null && "${root[@]}" true 2>/dev/null; then
    echo "set-up: no Java 17 here, installing one with apt" >&2
    for package in openjdk-17-jre-headless openjdk-21-jre-headless; do
        { "${root[@]}" apt-get update -q && DEBIAN_FRONTEND=noninteractive "${root[@]}" apt-get install -q -y --no-install-recommends "$package"; } >&2 &&
            find_java && exit
    done
fi
echo "Spark needs Java 17 to 22: install one (Debian: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17) or set JAVA_HOME" >&2
exit 1
