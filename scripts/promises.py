#!/usr/bin/env python3
"""Prints which tests must fail with a planted bug: the arguments of `cargo test`, one line for each test program.

usage: promises.py PLANT    the tests of the rows of PROMISES.md that name this bug
       promises.py --list   the planted bugs that rows name

Tests that only `make test-full` runs, and tests that cargo does not run, are omitted. Quick programs come first.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLACE = re.compile(r"`([^`:]+)::([^`]+)`(?:\s*\(([^)]*)\))?")
# Test programs, the quickest first; other programs come after them.
ORDER = ["--lib", "--test model", "--test contract", "--test e2e", "--test faults", "--test nodes"]


def rows():
    """Yields the tests of each row as (path, name, marks), and its planted bugs."""
    for line in (ROOT / "PROMISES.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) == 5 and re.fullmatch(r"[PIR]\d+", cells[0]):
            yield PLACE.findall(cells[3]), re.findall(r"`([^`]+)`", cells[4])


def modules(path):
    parts = list(path.with_suffix("").parts)
    return parts[:-1] if parts and parts[-1] in ("main", "lib", "mod") else parts


def target(path, name):
    """Returns the program of a test, and a part of the test's full name that no other test of the program has."""
    path = Path(path)
    parts = path.parts
    if parts[0] == "tests":
        program, inside = f"--test {parts[1]}", modules(Path(*parts[2:]))
        made_by_macro = parts[1] == "contract" and not re.search(rf"#\[tokio::test.*\n.*fn {name}\b", (ROOT / path).read_text())
        # `contract!` generates `on_sqlite::name` and so on, without the module of the function.
        return program, "::" + name if made_by_macro else "::".join([*inside, name])
    if parts[0] == "crates":
        return f"-p threadline-{parts[1]} --lib", unit(Path(*parts[3:]), name)
    return "--lib", unit(Path(*parts[1:]), name)


def unit(path, name):
    """Returns the full name of a unit test: a file has a module `tests`, or is one."""
    inside = modules(path)
    return "::".join(inside + ([] if inside[-1:] == ["tests"] else ["tests"]) + [name])


def main(arguments):
    if len(arguments) != 1 or arguments[0] in ("-h", "--help"):
        sys.exit(__doc__)
    if arguments == ["--list"]:
        print("\n".join(sorted({plant for _, plants in rows() for plant in plants})))
        return
    programs = {}
    for tests, plants in rows():
        if arguments[0] not in plants:
            continue
        for path, name, marks in tests:
            if path.endswith(".rs") and "full" not in marks.split(", "):
                program, filtered = target(path, name)
                names = programs.setdefault(program, [])
                if filtered not in names:
                    names.append(filtered)
    if not programs:
        sys.exit(f"no row of PROMISES.md names the planted bug {arguments[0]}")
    for program in sorted(programs, key=lambda program: ORDER.index(program) if program in ORDER else len(ORDER)):
        print(program, "--", *programs[program])


if __name__ == "__main__":
    main(sys.argv[1:])
