#!/usr/bin/env python3
"""Measures the structure of the code base: circles of imports, imports between APIs, prose, duplication.

usage: measures.py            print each measure, its bound and its goal
       measures.py --check    the same; exit 1 if a measure is over its bound in scripts/measures.json
       measures.py --lower    write today's figures into scripts/measures.json where they are below the bound
       measures.py --list ID  print the places that a measure counts

A bound is the largest permitted figure; it is lowered when the code improves and never raised. A goal is the intended figure.
"""

import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BOUNDS = ROOT / "scripts" / "measures.json"
NAME = re.compile(r"[A-Za-z_]\w*")
# First words of comments that do not name their subject.
PRONOUNS = (
    "it its they their them he she this that these those what which who whom whose whoever whatever whether "
    "nobody nothing somebody something everybody everything anybody anything where when how why"
).split()


def strip(text):
    """Returns Rust source without comments, with strings and characters emptied; line numbers stay the same."""
    pattern = re.compile(
        r'//[^\n]*|/\*.*?\*/|b?r(?P<h>#*)".*?"(?P=h)|b?"(?:\\.|[^"\\])*"|\'(?:\\[^\n]{1,8}?|[^\'\\\n])\'', re.S
    )

    def blank(found):
        lines = "\n" * found.group().count("\n")
        return lines if found.group().startswith("/") else '""' + lines

    return pattern.sub(blank, text)


def without_tests(code):
    """Removes items under #[cfg(test)] or #[cfg(any(test, …))]."""
    while found := re.search(r"#\[cfg\((?:any\()?test\b[^\]]*\]", code):
        depth, at = 0, found.end()
        while at < len(code):
            if code[at] == "{":
                depth += 1
            elif code[at] == "}":
                depth -= 1
                if depth == 0:
                    break
            elif code[at] == ";" and depth == 0:
                break
            at += 1
        cut = code[found.start() : at + 1]
        code = code[: found.start()] + "\n" * cut.count("\n") + code[at + 1 :]
    return code


class Source:
    """A file of the product. Its module begins with the name of its crate; the root package's has none."""

    def __init__(self, path):
        self.path = path.relative_to(ROOT).as_posix()
        self.text = path.read_text()
        self.code = without_tests(strip(self.text))
        parts = list(path.relative_to(ROOT).with_suffix("").parts)
        at = parts.index("src")
        self.crate = (f"threadline_{parts[1]}",) if at else ()
        parts = parts[at + 1 :]
        if parts[-1] == "mod" or parts in (["lib"], ["main"]):
            parts.pop()
        self.module = self.crate + tuple(parts)


def sources():
    paths = sorted([*(ROOT / "src").rglob("*.rs"), *ROOT.glob("crates/*/src/**/*.rs")])
    return [Source(path) for path in paths if not {"tests", "tests.rs"} & set(path.relative_to(ROOT).parts)]


def tree(text, prefix=()):
    """Returns the paths of a `use` tree, as (segments, local name)."""
    depth, start, parts = 0, 0, []
    for at, letter in enumerate(text + ","):
        if letter in "{}":
            depth += 1 if letter == "{" else -1
        elif letter == "," and depth == 0:
            parts.append((text + ",")[start:at].strip())
            start = at + 1
    for part in filter(None, parts):
        if "{" in part:
            before, inner = part.split("{", 1)
            yield from tree(inner.rsplit("}", 1)[0], prefix + segments(before))
        else:
            path, _, alias = part.partition(" as ")
            path = prefix + segments(path)
            if path and path[-1] == "self":
                path = path[:-1]
            yield path, alias.strip() or (path[-1] if path else "")


def segments(text):
    return tuple(part.strip() for part in text.split("::") if part.strip())


class Graph:
    """Files and the files that they import, re-exports followed to where a name is defined."""

    def __init__(self, files):
        self.files = {source.module: source for source in files if source.path != "src/main.rs"}
        self.crates = {source.crate for source in files if source.crate}
        self.exports = defaultdict(dict)
        self.uses = defaultdict(list)
        for source in self.files.values():
            for found in re.finditer(r"\b(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);", source.code):
                for path, name in tree(" ".join(found.group(2).split())):
                    path = self.absolute(path, source.module)
                    if path:
                        self.uses[source.module].append(path)
                        if found.group(1):
                            self.exports[source.module][name] = path
            code = re.sub(r"\buse\s+[^;]+;", ";", source.code)
            # A path that begins with `$crate` belongs to the files that use the macro.
            for found in re.finditer(r"(?<![$\w])[A-Za-z_]\w*(?:\s*::\s*[A-Za-z_]\w*)+", code):
                path = self.absolute(segments(found.group()), source.module)
                if path:
                    self.uses[source.module].append(path)

    def absolute(self, path, module):
        """Resolves `crate`, `self` and `super` in a path of the workspace; returns None for other packages."""
        if path[:1] == ("crate",):
            return (module[:1] if module[:1] in self.crates else ()) + path[1:]
        if path[:1] == ("threadline",):
            return path[1:]
        if path[:1] in self.crates:
            return path
        if path[:1] in (("self",), ("super",)):
            here = list(module)
            while path[:1] in (("self",), ("super",)):
                if path[0] == "super" and here:
                    here.pop()
                path = path[1:]
            return tuple(here) + path
        if path and module + path[:1] in self.files:
            return module + path
        return None

    def target(self, path, seen=()):
        """Returns the file that defines the item of a path."""
        for length in range(len(path), -1, -1):
            module, rest = path[:length], path[length:]
            if module in self.files:
                export = self.exports[module].get(rest[0]) if rest else None
                if not export and rest:
                    globs = [to[:-1] for name, to in self.exports[module].items() if name == "*"]
                    export = next((to + rest[:1] for to in globs if self.defines(to, rest[0])), None)
                if export and (module, rest) not in seen:
                    return self.target(export + rest[1:], (*seen, (module, rest)))
                return module
        return None

    def defines(self, module, name):
        source = self.files.get(module)
        kinds = r"(?:struct|enum|trait|fn|const|static|type|mod|union)"
        return bool(source and re.search(rf"\b{kinds}\s+{re.escape(name)}\b", source.code))

    def edges(self):
        found = defaultdict(set)
        for module, paths in self.uses.items():
            for path in paths:
                to = self.target(path)
                # Imports of the root are not counted: it only lists the modules.
                if to and to != module and module:
                    found[module].add(to)
        return found


def circles(edges):
    """Returns strongly connected sets of more than one file, the largest first (Tarjan's algorithm, without recursion)."""
    index, low, on, stack, found = {}, {}, set(), [], []
    for root in list(edges):
        if root in index:
            continue
        work = [(root, iter(sorted(edges[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on.add(root)
        while work:
            node, rest = work[-1]
            for to in rest:
                if to not in index:
                    index[to] = low[to] = len(index)
                    stack.append(to)
                    on.add(to)
                    work.append((to, iter(sorted(edges.get(to, ())))))
                    break
                if to in on:
                    low[node] = min(low[node], index[to])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    members = []
                    while True:
                        members.append(stack.pop())
                        on.discard(members[-1])
                        if members[-1] == node:
                            break
                    if len(members) > 1:
                        found.append(sorted(members))
    return sorted(found, key=len, reverse=True)


# Siblings that each top-level module of `src` may import, and packages that it must not use. Between crates the manifests
# decide.
LAYERS = {
    "agents": ((), "redis sqlx axum hyper"),
    "titles": (("agents",), "redis sqlx axum hyper reqwest"),
    # Bytes in JSON, on the wire and in exports.
    "base64_bytes": ((), "redis sqlx axum hyper reqwest"),
    "api": (("agents", "base64_bytes"), "redis sqlx reqwest"),
    "config": (("agents", "telemetry", "titles"), "redis sqlx axum hyper"),
    "app": (("agents", "api", "config", "titles"), ""),
    "telemetry": ((), "redis sqlx axum hyper reqwest"),
    "progress": ((), "redis sqlx axum hyper reqwest"),
    # Moves threads from one store to another, through files.
    "transfer": (("progress", "base64_bytes"), "redis sqlx axum hyper reqwest"),
    "cli": (("agents", "app", "config", "transfer", "progress"), "redis sqlx axum hyper"),
    # Entry points of parsers, in builds for fuzzers only.
    "fuzzing": (("agents", "api", "titles", "transfer"), "redis sqlx"),
}
# Files that may be longer than 500 lines: the reference implementation of all ports, which reads as one specification, and the
# list of all limits, with one or two lines for each.
LONG = ("crates/store/src/memory/mod.rs", "crates/core/src/limits.rs")
PANICS = re.compile(r"\.unwrap\(\)|\.expect\(|\b(?:panic|todo|unimplemented|unreachable)!\(")
BACK_ENDS = re.compile(r"\b(?:SqliteStore|MemoryStore)\b")
OWN_ROUTES = re.compile(r"\b(?:Router::new|OpenApiRouter)\b|\.(?:route_service|nest|nest_service|merge)\(|\.route\((?!Access::)")

# Names of the wall clock of a machine. Everything that nodes share follows the store's clock instead. The files that may name it: the
# one that defines it, the server, which opens stores by it, the reference store, the data directory, which follows it at each beat,
# and the metric of the start of the process.
WALL_CLOCK = re.compile(r"\bClock::(?:system|default)\b|\bSystemTime\b|\bTimestamp::now\b|\b[a-z_]*clock\.wall\(\)|\bUtc::now\b")

APIS = ("rest", "socket", "agui", "ai", "openai", "streams", "conversations", "copilotkit", "console")


def api_of(module):
    """Returns the API of a file; the socket counts as a separate one."""
    if module[:1] != ("api",) or len(module) < 2 or module[1] not in APIS:
        return None
    return module[1]


def against_layers(files, pairs):
    """Yields imports within `src` that LAYERS does not allow, and modules that LAYERS does not list."""
    root = {source.module: source for source in files if not source.crate and source.module}
    for module, source in root.items():
        top = module[0]
        if top not in LAYERS:
            yield f"{source.path}: {top} is not listed in LAYERS"
            continue
        for package in LAYERS[top][1].split():
            if re.search(rf"(?<![\w:]){package}::", source.code):
                yield f"{source.path}: {top} must not use {package}"
    for module, to in pairs:
        if module in root and to in root and to[0] != module[0] and to[0] not in LAYERS.get(module[0], ((), ""))[0]:
            yield f"{root[module].path} -> {root[to].path}"


def comments(files):
    """Yields comment blocks as (path, line, True for doc comments, text)."""
    for source in files:
        block, kind, begin = [], None, 0
        for number, line in enumerate([*source.text.splitlines(), ""], 1):
            found = re.match(r"\s*(//[/!]?)(?!/)\s?(.*)", line)
            if found and found.group(1) == kind and not (kind == "//!" and not block):
                block.append(found.group(2))
                continue
            if block:
                yield source.path, begin, kind != "//", " ".join(block)
            block, kind, begin = ([found.group(2)], found.group(1), number) if found else ([], None, 0)


def first_word(text):
    found = NAME.match(text.lstrip("`*[("))
    return found.group().lower() if found else ""


def shape(line):
    """Returns a line without its names, strings and numbers."""
    return re.sub(r"\b(?!fn|let|if|else|match|for|while|return|impl|struct|enum|pub|async|await|mut|self)\w+\b", "·", line)


def duplicates(files, size=6):
    """Returns pairs of places with at least `size` equal lines of code, each counted once."""
    places = defaultdict(list)
    for source in files:
        lines = [(n, " ".join(line.split())) for n, line in enumerate(source.code.splitlines(), 1)]
        lines = [(n, line) for n, line in lines if len(line) > 3 and not line.startswith(("use ", "#["))]
        for at in range(len(lines) - size + 1):
            window = tuple(line for _, line in lines[at : at + size])
            if sum(map(len, window)) > 120:
                places[window].append((source.path, at, lines[at][0]))
    pairs = set()
    for where in places.values():
        for one in where:
            for other in where:
                if one < other and not (one[0] == other[0] and abs(one[1] - other[1]) < size):
                    pairs.add((one, other))
    # A longer equal stretch is one pair: pairs that follow another pair line by line belong to it.
    begins = [p for p in pairs if ((p[0][0], p[0][1] - 1), (p[1][0], p[1][1] - 1)) not in {((a[0], a[1]), (b[0], b[1])) for a, b in pairs}]
    return sorted(f"{a[0]}:{a[2]} = {b[0]}:{b[2]}" for a, b in begins)


def measure():
    """Returns the places that each measure counts, by its id."""
    files = sources()
    graph = Graph(files)
    edges = graph.edges()
    path = lambda module: graph.files[module].path
    arrow = lambda module, to: f"{path(module)} -> {path(to)}"
    pairs = [(module, to) for module, found in edges.items() for to in found]
    found = {}
    rings = circles(edges)
    found["largest-circle"] = [path(module) for module in (rings[0] if rings else [])]
    engine = ("threadline_engine",)
    inside = {m: {t for t in to if t[:1] and t[0] in engine} for m, to in edges.items() if m and m[0] in engine}
    rings = circles(inside)
    found["largest-engine-circle"] = [path(module) for module in (rings[0] if rings else [])]
    found["api-to-api"] = [arrow(m, t) for m, t in pairs if api_of(m) and api_of(t) and api_of(m) != api_of(t)]
    found["api-to-store"] = [arrow(m, t) for m, t in pairs if api_of(m) and t[:1] == ("threadline_store",)]
    found["authorised-outside-routes"] = [
        f"{s.path}: {line.strip()}" for s in files if api_of(s.module) for line in s.code.splitlines()
        if re.search(r"\bneed\(|\bAccess::.*\.check\(|\bscopes\.contains\(", line) and "use " not in line
    ]
    found["imports-against-layers"] = sorted(against_layers(files, pairs))
    found["back-ends-outside-app"] = [s.path for s in files if not s.crate and s.path != "src/app.rs" and BACK_ENDS.search(s.code)]
    found["routes-outside-table"] = [f"{s.path}: {hit}" for s in files if s.module[:1] == ("api",) for hit in OWN_ROUTES.findall(s.code)]
    found["wall-clock-files"] = [s.path for s in files if WALL_CLOCK.search(s.code)]
    found["may-panic"] = [f"{s.path}: {hit}" for s in files for hit in PANICS.findall(s.code)]
    prose = list(comments(files))
    found["pronoun-comments"] = [f"{p}:{n}: {t[:80]}" for p, n, _, t in prose if first_word(t) in PRONOUNS]
    found["short-docs"] = [f"{p}:{n}: {t}" for p, n, doc, t in prose if doc and len(t.split()) <= 3]
    store = [source for source in files if source.module[:1] == ("threadline_store",)]
    found["store-macros"] = [f"{s.path}: {m}" for s in store for m in re.findall(r"macro_rules!\s*(\w+)", s.code)]
    found["concatenated-sql"] = [f"{s.path}" for s in store for _ in re.findall(r"\bconcat!\((?!env!)", s.code)]
    found["duplicates"] = duplicates(files)
    found["planted-sites"] = [
        f"{s.path}: {line.strip()}" for s in files for line in s.code.splitlines() if "planted(" in line and "fn planted" not in line
    ]
    found["benchmark-lines"] = [s.path for s in files if "bench" in s.module for _ in s.text.splitlines()]
    found["files-over-500-lines"] = [s.path for s in files if len(s.text.splitlines()) > 500 and s.path not in LONG]
    found["files-over-400-lines"] = [s.path for s in files if len(s.text.splitlines()) > 400]
    tests = [(p, p.read_text()) for p in sorted((ROOT / "tests").rglob("*.rs"))]
    found["sleeps-in-tests"] = [
        f"{p.relative_to(ROOT).as_posix()}:{n}" for p, text in tests for n, line in enumerate(text.splitlines(), 1)
        if re.search(r"\bsleep\(", line) and not line.lstrip().startswith("//")
    ]
    found["client-packages"] = client_packages()
    return found


def client_packages():
    """Returns the packages that users of the client crate compile."""
    command = ["cargo", "tree", "--locked", "-p", "threadline-client", "-e", "normal", "--prefix", "none", "--format", "{p}"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return sorted({" ".join(line.split()[:2]) for line in listed.splitlines() if line})


def main(arguments):
    found = measure()
    if arguments[:1] == ["--list"]:
        print("\n".join(found[arguments[1]]))
        return 0
    rows = json.loads(BOUNDS.read_text())
    worse = []
    print(f"{'measure':<28}{'today':>7}{'bound':>7}{'goal':>7}")
    for name, row in rows.items():
        today = len(found[name])
        print(f"{name:<28}{today:>7}{row['bound']:>7}{row['goal']:>7}  {row['counts']}")
        if today > row["bound"]:
            worse.append(name)
        if arguments == ["--lower"]:
            row["bound"] = min(row["bound"], today)
    if arguments == ["--lower"]:
        BOUNDS.write_text(json.dumps(rows, indent=2) + "\n")
    for name in worse:
        print(f"{name} is over its bound: scripts/measures.py --list {name}", file=sys.stderr)
    return 1 if worse and arguments == ["--check"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
