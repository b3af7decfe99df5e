"""The protocols that can be explored, oldest first."""

from __future__ import annotations

from tests.model.protocols.before import BEFORE
from tests.model.protocols.now import DAY_IDS, NOW

VARIANTS = {variant.name: variant for variant in (BEFORE, DAY_IDS, NOW)}
