"""Read docstrings of the house: a parameter's or an error's line is `name : meaning`.

NumPy's style has the type after the colon, and the meaning on the next line. Ours are annotated.
"""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension

_LINE = re.compile(r"^(\*{0,2}\w[\w, *]*?) : (.+)$", re.M)


class Meanings(Extension):
    """Puts each meaning where NumPy's style has it."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Change the docstring of an object that was read."""
        if obj.docstring is not None:
            obj.docstring.value = _LINE.sub(r"\1\n    \2", obj.docstring.value)
