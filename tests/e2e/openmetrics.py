"""Reads an OpenMetrics text on stdin as strictly as the reference parser does; prints each metric's type as JSON."""

import json
import sys

from prometheus_client.openmetrics.parser import text_string_to_metric_families

families = {}
for family in text_string_to_metric_families(sys.stdin.read()):
    assert family.documentation, f"{family.name} is not explained"
    families[family.name] = {"type": family.type, "samples": len(family.samples)}
json.dump(families, sys.stdout)
