#!/usr/bin/env bash
# Makes .jars: Delta's jars, fetched once, Spark's defaults for this machine, and an archive of loaded
# classes that takes about four seconds of CPU off every later start.
set -euo pipefail
cd "$(dirname "$0")/.."

export JAVA_HOME SPARK_HOME SPARK_CONF_DIR="$PWD/.jars/conf" SPARK_LOCAL_IP=127.0.0.1 PYSPARK_PYTHON="$PWD/.venv/bin/python"
JAVA_HOME=$(setup/java.sh)
SPARK_HOME=$(.venv/bin/python -c 'import pyspark; print(pyspark.__path__[0])')
mkdir -p .jars/conf .jars/small .run
printf '%s\n' "$JAVA_HOME" >.jars/java_home
printf '%s\n' "$SPARK_HOME" >.jars/spark_home

# Delta is built for each series of Spark; its jars are of the version of its Python package.
delta=io.delta:delta-spark_$(.venv/bin/python -c 'import importlib.metadata as m, pyspark
print(pyspark.__version__.rpartition(".")[0] + "_2.13:" + m.version("delta-spark"))')

# Iceberg's runtime is built for a series of Spark, too. For 4.2 there is none yet, so Makefile pins 4.1.
series=$(.venv/bin/python -c 'import pyspark; print(pyspark.__version__.rpartition(".")[0])')
case $series in 4.1) iceberg=org.apache.iceberg:iceberg-spark-runtime-${series}_2.13:1.12.0 ;; *) iceberg= ;; esac
# Its tests have a catalog in SQLite, too.
sqlite=org.xerial:sqlite-jdbc:3.50.3.0

say() { printf 'set-up: %s\n' "$*"; }
quietly() { "$@" >.run/setup.log 2>&1 || { cat .run/setup.log >&2; return 1; }; }

# fetch WHAT PACKAGES EXCLUDED: puts the jars of Maven packages into .jars/ivy/jars. IVY_SETTINGS=file names a
# mirror; a local Maven repository is looked into first.
fetch() {
    say "$1 ($2)"
    rm -rf .jars/ivy
    : >.run/nothing.py
    submit() {
        .venv/bin/spark-submit --master 'local[1]' --packages "$1" --exclude-packages "$2" "${@:3}" \
            --conf spark.jars.ivy="$PWD/.jars/ivy" ${IVY_SETTINGS:+--conf spark.jars.ivySettings="$IVY_SETTINGS"} .run/nothing.py
    }
    # A local repository may have a POM without its jar. Spark takes the POM, finds no jar and gives up. Where
    # Java's user has another home, Spark does not see that repository.
    maven=$("$JAVA_HOME/bin/java" -XshowSettings:properties -version 2>&1 | sed -n 's/^ *user\.home = //p')/.m2/repository
    if ! submit "$2" "$3" >.run/setup.log 2>&1; then
        if [ ! -d "$maven" ]; then cat .run/setup.log >&2; exit 1; fi
        say "not all of them are in $maven: fetching them without it"
        rm -rf .jars/ivy
        quietly submit "$2" "$3" --driver-java-options "\"-Duser.home=$PWD/.jars/ivy\""
    fi
    rm -f .run/nothing.py
}

# Delta's own two jars: PySpark has the rest of what they ask for, or newer (RoaringBitmap), or no job of
# ours asks for it.
artifact=${delta#*:}
if ! ls ".jars/${artifact/:/-}.jar" .jars/delta-storage-"${delta##*:}".jar >/dev/null 2>&1; then
    rm -f .jars/*.jar
    fetch "Delta's jars" "$delta" 'com.*:*,org.*:*,javax.*:*,commons-*:*,io.airlift:*,io.unitycatalog:*,io.delta:delta-kernel*'
    for jar in .jars/ivy/jars/io.delta_*.jar; do mv "$jar" ".jars/${jar##*io.delta_}"; done
    rm -rf .jars/ivy
fi

extensions=io.delta.sql.DeltaSparkSessionExtension
if [ -n "$iceberg" ]; then
    extensions=$extensions,org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions
    wanted=${iceberg#*:}
    if ! ls ".jars/${wanted/:/-}.jar" ".jars/sqlite-jdbc-${sqlite##*:}.jar" >/dev/null 2>&1; then
        rm -f .jars/iceberg-spark-runtime-*.jar .jars/sqlite-jdbc-*.jar
        fetch "Iceberg's runtime" "$iceberg,$sqlite" org.slf4j:slf4j-api
        for jar in .jars/ivy/jars/*_{iceberg-spark-runtime,sqlite-jdbc}-*.jar; do mv "$jar" ".jars/$(basename "$jar" | sed 's/^[^_]*_//')"; done
        rm -rf .jars/ivy
    fi
fi

# C1 alone and the serial collector halve the CPU of a short job on two cores and cost long ones nothing
# that shows. Class path: first Delta, then PySpark's jars by name, because a JVM archives classes only
# from a path whose folders (here Spark's conf) come after the last jar used. A JVM that finds the archive
# missing, or made by another, goes on without it and says nothing.
fast="-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
cat >.jars/conf/spark-defaults.conf <<END
# Made by setup/spark.sh for jobs on this machine; a cluster brings its own.
spark.master                                local[*]
spark.driver.extraClassPath                 $PWD/.jars/*:$SPARK_HOME/jars/*
spark.executor.extraClassPath               $PWD/.jars/*
spark.driver.extraJavaOptions               $fast "-XX:SharedArchiveFile=$PWD/.jars/classes.jsa" -Xlog:disable -Xlog:all=error:stderr
spark.driver.memory                         2g
spark.sql.extensions                        $extensions
spark.sql.catalog.spark_catalog             org.apache.spark.sql.delta.catalog.DeltaCatalog
spark.sql.warehouse.dir                     $PWD/.run/warehouse
spark.sql.shuffle.partitions                8
spark.databricks.delta.snapshotPartitions   2
spark.ui.enabled                            false
spark.ui.showConsoleProgress                false
spark.log.level                             WARN
END
# The catalog of the tables that `make run` adopts: evenkeel/demo/team_tables.py.
if [ -n "$iceberg" ]; then cat >>.jars/conf/spark-defaults.conf <<END
spark.sql.catalog.demo                      org.apache.iceberg.spark.SparkCatalog
spark.sql.catalog.demo.type                 hadoop
spark.sql.catalog.demo.warehouse            $PWD/.run/lake
END
fi
cat >.jars/conf/log4j2.properties <<'END'
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
END

# For some thousand rows to plan and compile a query costs more than to interpret it: what `make run`
# and the tests do on small tables of their own takes a fifth less CPU.
cp .jars/conf/log4j2.properties .jars/small/
cat .jars/conf/spark-defaults.conf - >.jars/small/spark-defaults.conf <<'END'
spark.sql.shuffle.partitions                2
spark.databricks.delta.snapshotPartitions   1
spark.sql.codegen.wholeStage                false
spark.sql.codegen.factoryMode               NO_CODEGEN
spark.sql.adaptive.enabled                  false
END

say "a first Spark job, to try it all and to archive its classes"
rm -f .jars/classes.new
quietly .venv/bin/spark-submit --driver-java-options "$fast \"-XX:ArchiveClassesAtExit=$PWD/.jars/classes.new\" -Xlog:disable" \
    setup/warm.py "$PWD/.run/warm"
if [ -f .jars/classes.new ]; then mv -f .jars/classes.new .jars/classes.jsa; fi
rm -rf .run/warm
