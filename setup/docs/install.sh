#!/usr/bin/env bash
# Makes .venv/docs with what builds the documentation, as setup/docs/requirements.lock pins it. It is
# apart from .venv, so nobody who runs Evenkeel installs it. `make distclean` removes both.
set -euo pipefail
cd "$(dirname "$0")/../.."

echo "set-up: MkDocs in .venv/docs from setup/docs/requirements.lock (about half a minute)"
.venv/bin/python -m venv --clear --without-pip .venv/docs
.venv/bin/python -m pip --python .venv/docs/bin/python install -q --disable-pip-version-check \
    --require-hashes -r setup/docs/requirements.lock
touch .venv/docs/.installed
