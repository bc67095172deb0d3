"""Configs that a page of the docs shows."""

import re
from pathlib import Path

_TIERS = """
tiers:
  fast: {targets: [{name: quick, adapter: simulated}]}
  deep: {targets: [{name: thorough, adapter: simulated}]}
"""


def configs_on(page: Path) -> list[str]:
    """Each YAML block, with tiers where the page shows only other settings."""
    blocks = re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL)
    return [block if re.search(r"^tiers:", block, re.MULTILINE) else f"{block}{_TIERS}" for block in blocks]
