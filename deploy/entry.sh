#!/bin/sh
# Starts what a container runs. Spark takes the secret of a cluster from a driver's configuration alone, and where
# the store is, too: both are written where no other user reads them.
set -eu
umask 077
conf=$(mktemp -d)
cp "$SPARK_CONF_DIR"/* "$conf"
printf '\nspark.authenticate.secret %s\nspark.hadoop.fs.s3a.endpoint %s\n' "$SPARK_SECRET" "$AWS_ENDPOINT_URL" \
    >>"$conf/spark-defaults.conf"
export SPARK_CONF_DIR="$conf"
unset SPARK_SECRET
exec "$@"
