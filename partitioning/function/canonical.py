"""One spelling of data, and its digest."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def canonical_json(data: Any) -> bytes:
    """Spell equal data in one way: keys sorted, no spaces, UTF-8, no NaN."""
    return json.dumps(
        data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def digest(data: Any) -> str:
    """Return the sha256 (hex) over the canonical JSON of `data`."""
    return hashlib.sha256(canonical_json(data)).hexdigest()
