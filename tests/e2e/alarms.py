"""Reads rules for Prometheus from the file named, and prints what each alarm asks of which metric, as JSON."""

import json
import sys

import promql_parser
import yaml


def selectors(node):
    """Every metric that an expression asks for, with the labels that it picks by."""
    if isinstance(node, promql_parser.VectorSelector):
        matchers = {matcher.name: matcher.value for matcher in node.matchers.matchers}
        return [{"metric": node.name, "labels": list(matchers), "picks": matchers}]
    found = []
    for name in ("expr", "lhs", "rhs", "param", "vector_selector", "vs"):
        part = getattr(node, name, None)
        if part is not None:
            found += selectors(part)
    for part in getattr(node, "args", None) or []:
        found += selectors(part)
    return found


def ratios(node):
    """Every division in an expression, but for those by what is never 0."""
    found = []
    for name in ("expr", "lhs", "rhs"):
        part = getattr(node, name, None)
        if part is not None:
            found += ratios(part)
    if isinstance(node, promql_parser.BinaryExpr) and str(node.op) == "/":
        below = selectors(node.rhs)
        if any(selector["metric"] not in NEVER_ZERO for selector in below):
            found.append([selector["metric"] for selector in below])
    return found


def floors(node):
    """The metrics that have to be above a number of their own, as `… and sum(rate(m[5m])) > 0.1` says."""
    if isinstance(node, promql_parser.ParenExpr):
        return floors(node.expr)
    if not isinstance(node, promql_parser.BinaryExpr) or str(node.op) != "and":
        return []
    found = floors(node.lhs)
    floor = node.rhs
    if isinstance(floor, promql_parser.BinaryExpr) and str(floor.op) in (">", ">=") and not ratios(floor):
        assert isinstance(floor.rhs, promql_parser.NumberLiteral) and floor.rhs.val > 0, "a floor is above 0"
        found += [selector["metric"] for selector in selectors(floor.lhs)]
    return found


NEVER_ZERO = ("process_max_fds",)

with open(sys.argv[1]) as file:
    document = yaml.safe_load(file)
alarms = []
for group in document["groups"]:
    for rule in group["rules"]:
        promql_parser.parse_duration(rule["for"])
        expression = promql_parser.parse(rule["expr"])
        asks = selectors(expression)
        for below in ratios(expression):
            missing = set(below) - set(floors(expression))
            assert not missing, f"{rule['alert']} divides by {missing} without a floor: one of one is 100 %"
        assert asks, f"{rule['alert']} asks for nothing"
        assert rule["labels"]["severity"] in ("page", "ticket"), rule
        assert rule["annotations"]["summary"], rule
        alarms.append({"alert": rule["alert"], "asks": asks})
json.dump(alarms, sys.stdout)
