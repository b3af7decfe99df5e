"""The protocols that can be explored, oldest first."""

from __future__ import annotations

from tests.model.protocols.before import BEFORE
from tests.model.protocols.now import NOW

VARIANTS = {variant.name: variant for variant in (BEFORE, NOW)}
