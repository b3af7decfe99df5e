#!/usr/bin/env bash
# Makes .jars/iceberg-rest: the catalog server of Iceberg's own tests, 20 MB. Tests of Iceberg tables in a REST
# catalog start it, and are skipped without it. Iceberg publishes no such jar of its newest release.
set -euo pipefail
cd "$(dirname "$0")/.."

iceberg=1.11.0 jetty=11.0.26 sqlite=3.50.3.0
home=$PWD/.jars/iceberg-rest versions="$iceberg $jetty $sqlite"
[ "$(cat "$home/versions" 2>/dev/null)" != "$versions" ] || exit 0
command -v mvn >/dev/null || { echo "mvn fetches Iceberg's REST catalog, and is not here: install Maven (Debian: apt-get install maven)" >&2; exit 1; }
JAVA_HOME=$(setup/java.sh)
export JAVA_HOME
echo "set-up: Iceberg's REST catalog $iceberg" >&2

dependency() { printf '<dependency><groupId>%s</groupId><artifactId>%s</artifactId><version>%s</version>%s</dependency>\n' "$1" "$2" "$3" "${4-}"; }
mkdir -p .run/iceberg-rest
{
    echo '<project><modelVersion>4.0.0</modelVersion><groupId>evenkeel</groupId><artifactId>iceberg-rest</artifactId>'
    echo '<version>0</version><dependencies>'
    dependency org.apache.iceberg iceberg-core "$iceberg"
    dependency org.apache.iceberg iceberg-core "$iceberg" '<classifier>tests</classifier>'
    dependency org.eclipse.jetty jetty-servlet "$jetty"
    dependency org.xerial sqlite-jdbc "$sqlite"
    echo '</dependencies></project>'
} >.run/iceberg-rest/pom.xml
rm -rf "$home.new"
mvn -q -B -f .run/iceberg-rest/pom.xml dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$home.new" >&2
echo "$versions" >"$home.new/versions"
rm -rf "$home"
mv "$home.new" "$home"
rm -rf .run/iceberg-rest
