"""Pages of the documentation."""

from __future__ import annotations

import re
from pathlib import Path
from typing import List

_DOCS = Path(__file__).resolve().parents[4] / "docs"


def examples_of(page: str) -> List[str]:
    """The blocks of Python on a page, in their order."""
    return re.findall(r"^```python\n(.*?)^```$", (_DOCS / page).read_text(), re.M | re.S)
