"""Pages of the documentation."""

from __future__ import annotations

import re
from pathlib import Path
from typing import List

ROOT = Path(__file__).resolve().parents[4]


def examples_of(page: str) -> List[str]:
    """The blocks of Python on a page, in their order."""
    return re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / page).read_text(), re.M | re.S)
