"""Make a bucket, with the flights of 2013 in it: `python deploy/bucket.py NAME`. Once is enough."""

import sys
import tempfile
from pathlib import Path

import s3fs

from evenkeel.demo.flights import write_flights


def main(bucket: str) -> None:
    """Do what is not done yet."""
    store, target = s3fs.S3FileSystem(), f"{bucket}/data/flights.parquet"
    if not store.exists(bucket):
        store.mkdir(bucket)
    if not store.exists(target):
        with tempfile.TemporaryDirectory() as folder:
            made = Path(folder) / "flights.parquet"
            write_flights(made)
            store.put_file(str(made), target)


if __name__ == "__main__":
    main(sys.argv[1])
