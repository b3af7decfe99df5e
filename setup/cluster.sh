#!/usr/bin/env bash
# Makes .jars/s3: what Spark reaches an S3-compatible store by (700 MB), and .jars/hadoop: Hadoop's mini cluster
# (70 MB), each in the version of Spark's Hadoop. Only who asks for them (`make cluster`) has them.
set -euo pipefail
cd "$(dirname "$0")/.."

eval "$(.venv/bin/python -I evenkeel/local_env.py)"
hadoop=$(basename "$SPARK_HOME"/jars/hadoop-client-api-*.jar .jar)
hadoop=${hadoop##*-}

# fetch FOLDER ARTIFACT OPTION...: this artifact of Hadoop, and what else spark-submit finds with these options
fetch() {
    [ -f ".jars/$1/$2-$hadoop.jar" ] && return
    printf 'set-up: jars of .jars/%s\n' "$1"
    mkdir -p .run
    rm -rf .jars/ivy ".jars/$1.new"
    : >.run/nothing.py
    spark-submit --master 'local[1]' --conf spark.jars.ivy="$PWD/.jars/ivy" "${@:3}" \
        ${IVY_SETTINGS:+--conf spark.jars.ivySettings="$IVY_SETTINGS"} .run/nothing.py >.run/setup.log 2>&1 ||
        { cat .run/setup.log >&2; exit 1; }
    mkdir ".jars/$1.new"
    for jar in .jars/ivy/jars/*.jar; do
        name=${jar##*/}
        mv "$jar" ".jars/$1.new/${name#*_}"
    done
    rm -rf ".jars/$1"
    mv ".jars/$1.new" ".jars/$1"
    rm -rf .jars/ivy .run/nothing.py
}

fetch s3 hadoop-aws --packages "org.apache.hadoop:hadoop-aws:$hadoop"
# The rest of what the mini cluster asks for is in Spark's own jars, and some that it asks for is not needed.
fetch hadoop hadoop-client-minicluster --packages "org.apache.hadoop:hadoop-client-minicluster:$hadoop,org.junit.jupiter:junit-jupiter-api:5.10.2,org.bouncycastle:bcpkix-jdk18on:1.78.1" \
    --exclude-packages 'org.apache.hadoop:hadoop-client-api,org.apache.hadoop:hadoop-client-runtime'
