"""Lock files of the repository: their packages, what needs each, and how near it comes to what users run.

Read by supply.py and sbom.py. The lock files alone are read, without a network; only what is compiled into the server is asked
of `cargo tree`, because a Cargo.lock does not tell a library from a tool of the build.
"""

import hashlib
import json
import os
import re
import subprocess
import tomllib
from collections import deque
from dataclasses import dataclass, field
from pathlib import PurePosixPath

# From what users run to what no user runs. A package that is reached in several ways has the first.
REACHES = ("runtime", "build", "test")
KINDS = {"Cargo.lock": "cargo", "package-lock.json": "npm", "requirements.txt": "pip"}
# Lock files of other package managers, which this script cannot read.
OTHERS = {"yarn.lock", "pnpm-lock.yaml", "npm-shrinkwrap.json", "bun.lock", "uv.lock", "poetry.lock", "Pipfile.lock",
          "mix.lock", "go.sum", "Gemfile.lock"}
CRATES = "registry+https://github.com/rust-lang/crates.io-index"
NPM = "https://registry.npmjs.org/"
# The program that releases consist of, as cargo names it.
PROGRAM = "threadline"


class Invalid(Exception):
    """A lock file that cannot be checked, or has a package that must not be there."""


@dataclass
class Package:
    kind: str
    name: str
    version: str
    hash: str
    reach: str = "test"
    # Lock files that name it directly.
    direct: set = field(default_factory=set)
    # Direct dependency that needs it, and the number of steps from there.
    needed_by: tuple = ()

    @property
    def key(self):
        return f"{self.name} {self.version}"


class Packages:
    """Packages of all lock files, by kind and by name with version."""

    def __init__(self):
        self.of = {kind: {} for kind in KINDS.values()}

    def add(self, lock, kind, name, version, digest):
        known = self.of[kind].setdefault(f"{name} {version}", Package(kind, name, version, digest))
        if known.hash != digest:
            raise Invalid(f"{lock}: {name} {version} has another hash than in another lock file")
        return known

    def __iter__(self):
        return (package for kind in self.of.values() for package in kind.values())


def tracked(root):
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True, text=True).stdout
    return sorted(path for path in listed.split("\0") if path and (root / path).is_file())


def read(root, paths, ships, compiled=None):
    """Packages of the lock files among `paths`. `ships` says of a package-lock.json what of it reaches users, `compiled` which
    crates are in the server and which build it (by default: what cargo says)."""
    packages = Packages()
    for path in paths:
        name = PurePosixPath(path).name
        if name in OTHERS:
            raise Invalid(f"{path}: this kind of lock file is not read; the kinds are {', '.join(KINDS)}")
        if name == "package.json" and not lock_beside(root / path):
            raise Invalid(f"{path} has dependencies and no package-lock.json beside it")
        if name == "Cargo.lock":
            crates(packages, root, path, compiled)
        elif name == "package-lock.json":
            npm(packages, root, path, ships.get(path, {}))
        elif name == "requirements.txt":
            pip(packages, root, path)
    if unknown := set(ships) - set(paths):
        raise Invalid(f"{min(unknown)}: no such lock file")
    return packages


def lock_beside(manifest):
    return manifest.with_name("package-lock.json").exists() or not any(
        json.loads(manifest.read_text()).get(part) for part in ("dependencies", "devDependencies", "optionalDependencies"))


def nearest(starts, needs):
    """Steps from direct dependencies, breadth first: node → (steps, name of the direct dependency). Ties go to the first name."""
    found = {}
    queue = deque((0, name, node) for name, node in sorted(starts))
    while queue:
        steps, name, node = queue.popleft()
        if node in found:
            continue
        found[node] = (steps, name)
        queue.extend((steps + 1, name, next_node) for next_node in sorted(needs(node)))
    return found


def note(package, reach, steps_and_name):
    """Keeps the nearest reason of the strongest reach, so that the reason does not depend on the order of lock files."""
    rank = (REACHES.index(reach), *steps_and_name)
    if not package.needed_by or rank < package.needed_by:
        package.needed_by = rank
    package.reach = REACHES[package.needed_by[0]]


# -- Cargo


def members(root):
    """Names of the workspace's own packages."""
    manifest = tomllib.loads((root / "Cargo.toml").read_text())
    folders = [folder for glob in manifest.get("workspace", {}).get("members", ["."]) for folder in
               ([root] if glob == "." else root.glob(glob))]
    own = (tomllib.loads((folder / "Cargo.toml").read_text()) for folder in folders if (folder / "Cargo.toml").exists())
    return {manifest["package"]["name"] for manifest in own if "package" in manifest}


def compiled_crates(root):
    """Crates linked into the server, and those that its build runs, on every platform: two sets of (name, version)."""

    def tree(edges):
        command = [os.environ.get("CARGO", "cargo"), "tree", "--offline", "--locked", "--package", PROGRAM, "--edges", edges,
                   "--target", "all", "--prefix", "none", "--format", "{p}"]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Invalid(f"cargo tree: {done.stderr.strip()}\n`cargo fetch --locked` makes Cargo.lock's packages known here")
        return {tuple(line.split()[:2]) for line in done.stdout.splitlines() if line}

    linked = {(name, version.removeprefix("v")) for name, version in tree("normal,no-proc-macro")}
    built = {(name, version.removeprefix("v")) for name, version in tree("normal,build")}
    return linked, built - linked


def crate_graph(text):
    """Entries of a Cargo.lock by (name, version), and the dependencies of each."""
    entries = {(entry["name"], entry["version"]): entry for entry in tomllib.loads(text)["package"]}
    versions = {}
    for name, version in entries:
        versions.setdefault(name, []).append(version)

    def needs(node):
        for wanted in entries[node].get("dependencies", []):
            name, *rest = wanted.split()
            yield (name, rest[0] if rest else versions[name][0])

    return entries, needs


def crates(packages, root, path, compiled):
    entries, needs = crate_graph((root / path).read_text())
    own = members((root / path).parent)
    starts, added = [], {}
    for node, entry in entries.items():
        if "source" not in entry:
            if entry["name"] not in own:
                raise Invalid(f"{path}: {entry['name']} is neither in a registry nor in this workspace")
            starts += [(each[0], each) for each in needs(node) if "source" in entries[each]]
            continue
        if entry["source"] != CRATES:
            raise Invalid(f"{path}: {entry['name']} {entry['version']} is from {entry['source']}, not from the registry")
        if not re.fullmatch(r"[0-9a-f]{64}", entry.get("checksum", "")):
            raise Invalid(f"{path}: {entry['name']} {entry['version']} has no checksum")
        added[node] = packages.add(path, "cargo", *node, f"sha256:{entry['checksum']}")
    # Asked only now: cargo refuses a lock file that the checks above explain.
    linked, built = compiled or compiled_crates(root)
    # The reason of a crate in the server is another crate in the server, not a tool that needs it as well.
    for reach, within in zip(REACHES, (linked, linked | built, set(added)), strict=True):
        starting = [(name, node) for name, node in starts if node in within]
        near = nearest(starting, lambda node, within=within: [each for each in needs(node) if each in within])
        for node in within & set(added):
            if node not in near:
                raise Invalid(f"{path}: nothing needs {added[node].key}")
            note(added[node], reach, near[node])
    for _, node in starts:
        added[node].direct.add(path)


# -- npm


def npm_graph(lock):
    """Entries of a package-lock.json by their place, and the places that each needs, as Node finds them."""
    entries = lock["packages"]

    def resolve(place, name):
        while True:
            found = f"{place}/node_modules/{name}".lstrip("/")
            if found in entries:
                return entries[found]["resolved"] if entries[found].get("link") else found
            if not place:
                return None
            place = place.rpartition("node_modules/")[0].rstrip("/") if "node_modules/" in place else ""

    def needs(place, parts=("dependencies", "optionalDependencies", "peerDependencies")):
        wanted = {name for part in parts for name in entries[place].get(part, {})}
        return {found for name in wanted if (found := resolve(place, name)) is not None}

    return entries, needs, resolve


def npm_name(place, entry):
    return entry.get("name") or place.rpartition("node_modules/")[2]


def npm(packages, root, path, ships):
    lock = json.loads((root / path).read_text())
    if lock.get("lockfileVersion") != 3:
        raise Invalid(f"{path}: lockfileVersion {lock.get('lockfileVersion')} instead of 3")
    entries, needs, resolve = npm_graph(lock)
    manifest = entries[""]
    direct = {name: part for part in ("devDependencies", "optionalDependencies", "dependencies") for name in manifest.get(part, {})}
    if missing := set(ships.get("build", [])) - set(direct):
        raise Invalid(f"{path}: {min(missing)} is no direct dependency")
    starts = {name: resolve("", name) for name in direct}
    added = {}
    for place, entry in entries.items():
        if not place or entry.get("link") or "node_modules/" not in place:
            where = (root / path).parent / (entry.get("resolved", "") if entry.get("link") else place)
            if not where.resolve().is_relative_to(root.resolve()):
                raise Invalid(f"{path}: {place} is a directory outside of the repository")
            continue
        name = npm_name(place, entry)
        if not entry.get("resolved", NPM).startswith(NPM):
            raise Invalid(f"{path}: {name} is from {entry['resolved']}, not from the registry")
        if not re.fullmatch(r"sha512-[A-Za-z0-9+/]{86}==", entry.get("integrity", "")):
            raise Invalid(f"{path}: {name} {entry['version']} has no SHA-512")
        added[place] = packages.add(path, "npm", name, entry["version"], entry["integrity"].replace("-", ":", 1))

    def reached(names):
        return nearest([(name, starts[name]) for name in names if starts[name]], needs)

    used = reached([name for name, part in direct.items() if part != "devDependencies"])
    build = reached(ships.get("build", []))
    near = reached(direct)
    for place, package in added.items():
        if place not in near:
            raise Invalid(f"{path}: nothing needs {place}")
        # npm's own marks: a package that only development needs has `dev`.
        if (place in used) == bool(entries[place].get("dev")):
            raise Invalid(f"{path}: {place} is {'not ' if place in used else ''}needed by development alone: install its packages again")
        reach, steps = "test", near[place]
        if ships.get("dependencies") and place in used:
            reach, steps = "runtime", used[place]
        elif place in build:
            reach, steps = "build", build[place]
        note(package, reach, steps)
    for place in starts.values():
        if place in added:
            added[place].direct.add(path)


# -- pip


def pip(packages, root, path):
    """A requirements.txt with hashes, as `uv pip compile --generate-hashes` and pip-compile write it."""
    text = re.sub(r"\\\n\s*", " ", (root / path).read_text())
    found, via, direct = {}, {}, set()
    current = None
    for line in text.splitlines():
        if match := re.fullmatch(r"([a-z0-9][a-z0-9.-]*)==(\S+)((?: ; .*?)?)((?: --hash=sha256:[0-9a-f]{64})+)", re.sub(r"\s+", " ", line)):
            name, version, _, hashes = match.groups()
            digests = sorted(re.findall(r"sha256:([0-9a-f]{64})", hashes))
            digest = digests[0] if len(digests) == 1 else hashlib.sha256("\n".join(digests).encode()).hexdigest()
            # One package has an archive for each platform, so many hashes: the list of them has one.
            label = "sha256:" if len(digests) == 1 else f"sha256 of {len(digests)}:"
            current = packages.add(path, "pip", name, version, label + digest)
            found.setdefault(name, []).append(current)
        elif match := re.fullmatch(r"\s*#(?: via)?\s*(.*)", line):
            if match.group(1).startswith("-r "):
                direct.add(current.name)
            elif match.group(1) and current:
                via.setdefault(match.group(1), set()).add(current.name)
        elif line.strip():
            raise Invalid(f"{path}: not NAME==VERSION with hashes: {line.strip()[:80]}")
    near = nearest([(name, name) for name in direct], lambda name: via.get(name, ()))
    for name, versions in found.items():
        if name not in near:
            raise Invalid(f"{path}: nothing needs {name}")
        for package in versions:
            note(package, "test", near[name])
            if name in direct:
                package.direct.add(path)
