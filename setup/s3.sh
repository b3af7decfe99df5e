#!/usr/bin/env bash
# Makes .jars/s3: what Spark reaches an S3-compatible store by, in the version of its Hadoop. 700 MB, so that
# only who asks for it (`make cluster`) has it.
set -euo pipefail
cd "$(dirname "$0")/.."

[ -d .jars/s3 ] && exit
eval "$(.venv/bin/python -I evenkeel/local_env.py)"
hadoop=$(basename "$SPARK_HOME"/jars/hadoop-client-api-*.jar .jar)
hadoop=org.apache.hadoop:hadoop-aws:${hadoop##*-}
printf 'set-up: %s and the AWS SDK (700 MB)\n' "$hadoop"
mkdir -p .run
rm -rf .jars/ivy .jars/s3.new
: >.run/nothing.py
spark-submit --master 'local[1]' --packages "$hadoop" --conf spark.jars.ivy="$PWD/.jars/ivy" \
    ${IVY_SETTINGS:+--conf spark.jars.ivySettings="$IVY_SETTINGS"} .run/nothing.py >.run/setup.log 2>&1 ||
    { cat .run/setup.log >&2; exit 1; }
mkdir .jars/s3.new
for jar in .jars/ivy/jars/*.jar; do
    name=${jar##*/}
    mv "$jar" ".jars/s3.new/${name#*_}"
done
mv .jars/s3.new .jars/s3
rm -rf .jars/ivy .run/nothing.py
