"""Puts the server into the wheel of a platform; scripts/wheel.py says which program, and for which platform."""

from __future__ import annotations

import os
from typing import Any, Dict

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PlatformHook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: Dict[str, Any]) -> None:
        binary = os.environ.get("THREADLINE_BINARY")
        if binary is None or self.target_name != "wheel" or version != "standard":
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{os.environ['THREADLINE_TAG']}"
        build_data["shared_scripts"][binary] = "threadline"
        build_data["sbom_files"].append(os.environ["THREADLINE_BILL"])
