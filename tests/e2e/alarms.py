"""Reads rules for Prometheus from the file named, and prints what each alarm asks of which metric, as JSON."""

import json
import sys

import promql_parser
import yaml


def selectors(node):
    """Every metric that an expression asks for, with the labels that it picks by."""
    if isinstance(node, promql_parser.VectorSelector):
        matchers = [matcher.name for matcher in node.matchers.matchers]
        return [{"metric": node.name, "labels": matchers}]
    found = []
    for name in ("expr", "lhs", "rhs", "param", "vector_selector", "vs"):
        part = getattr(node, name, None)
        if part is not None:
            found += selectors(part)
    for part in getattr(node, "args", None) or []:
        found += selectors(part)
    return found


with open(sys.argv[1]) as file:
    document = yaml.safe_load(file)
alarms = []
for group in document["groups"]:
    for rule in group["rules"]:
        promql_parser.parse_duration(rule["for"])
        asks = selectors(promql_parser.parse(rule["expr"]))
        assert asks, f"{rule['alert']} asks for nothing"
        assert rule["labels"]["severity"] in ("page", "ticket"), rule
        assert rule["annotations"]["summary"], rule
        alarms.append({"alert": rule["alert"], "asks": asks})
json.dump(alarms, sys.stdout)
