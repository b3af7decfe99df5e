"""Files with secrets, which only this user may read."""

import os
from pathlib import Path


def write_private(file: Path, text: str) -> None:
    """Replace a file; only this user can read the new one."""
    fresh = file.with_name(f".{file.name}")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(text)
    fresh.replace(file)
