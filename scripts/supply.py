#!/usr/bin/env python3
"""Compares everything that comes from outside with what has been reviewed. Reads files only; no network.

usage: supply.py --check             exit 1 if a lock file, an image or an install command is not as reviewed
       supply.py --check --release   the same, and an image without a known digest fails
       supply.py --add               write supply/reviewed.toml anew: entries of new packages, whose reasons are then to be filled in

Reviewed are the packages of all tracked lock files (supply/reviewed.toml) and the container images of all tracked files
(supply/pins.toml). npm and pip are called only with the options that run no code of a package and accept no other archive.
"""

import argparse
import json
import re
import sys
import tomllib
from pathlib import Path, PurePosixPath

import locks
from locks import Invalid

ROOT = Path(__file__).resolve().parent.parent
REVIEWED = "supply/reviewed.toml"
PINS = "supply/pins.toml"
# Reason of a new entry, which a person has to replace.
OPEN = "?"
OPEN_ENTRY = f', "{OPEN}", '
UNKNOWN = "unknown"
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
INTRODUCTION = """\
# Every package of every lock file, one a line: name and version, how near it comes to users, why it is here, and its hash in the
# lock file. Compared by `make lint`; `scripts/supply.py --add` writes it anew, and keeps what people wrote.
#
#   runtime   in the server, or in the console that it contains
#   build     run or read by the build of these
#   test      tests, examples and tools of contributors
#
# The reason of a package that the project names itself is written by a person; "for X" is computed: X is the one that needs it.

"""


def reviewed(root):
    try:
        return tomllib.loads((root / REVIEWED).read_text())
    except (FileNotFoundError, tomllib.TOMLDecodeError) as error:
        raise Invalid(f"{REVIEWED}: {error}") from error


def reason(package, known):
    """Reason of a package: a person's for a direct one, kept over versions, and a computed one for all others."""
    if not package.direct:
        return f"for {package.needed_by[2]}"
    own = [entry[1] for key, entry in known.items() if key == package.key and len(entry) == 3]
    others = [entry[1] for key, entry in known.items() if key.rpartition(" ")[0] == package.name and len(entry) == 3]
    return next((text for text in own + others if not text.startswith("for ")), OPEN)


def written(packages, known):
    """The file for these packages."""
    quoted = lambda text: json.dumps(text, ensure_ascii=False)
    out = [INTRODUCTION, "# What of a package-lock.json reaches users; of all others nothing does.\n[locks]\n"]
    for path, ships in sorted(known.get("locks", {}).items()):
        members = ", ".join(f"{name} = {json.dumps(value)}" for name, value in ships.items())
        out.append(f"{quoted(path)} = {{ {members} }}\n")
    for kind, of in packages.of.items():
        out.append(f"\n[{kind}]\n")
        for _, package in sorted(of.items()):
            why = reason(package, known.get(kind, {}))
            out.append(f"{quoted(package.key)} = [{quoted(package.reach)}, {quoted(why)}, {quoted(package.hash)}]\n")
    return "".join(out)


def packages_differ(packages, known):
    """Differences between the lock files and the reviewed list, a line each."""
    for kind, of in packages.of.items():
        listed = known.get(kind, {})
        for key, package in sorted(of.items()):
            entry = listed.get(key)
            if entry is None:
                yield f"{REVIEWED}: {kind} {key} is not listed: read it, then scripts/supply.py --add"
                continue
            if len(entry) != 3:
                yield f"{REVIEWED}: {kind} {key}: not [reach, reason, hash]"
                continue
            reach, why, digest = entry
            if digest != package.hash:
                yield f"{REVIEWED}: {kind} {key} has the hash {digest}, but {package.hash} in the lock file"
            if reach != package.reach:
                yield f"{REVIEWED}: {kind} {key} is listed as {reach}, but its reach is {package.reach}"
            computed = f"for {package.needed_by[2]}"
            if package.direct and (why.strip() in ("", OPEN) or why.startswith("for ")):
                yield f"{REVIEWED}: {kind} {key} is needed by {min(package.direct)}: write why in place of {why!r}"
            elif not package.direct and why != computed:
                yield f"{REVIEWED}: {kind} {key} has the reason {why!r} instead of {computed!r}: scripts/supply.py --add"
        for key in sorted(set(listed) - set(of)):
            yield f"{REVIEWED}: {kind} {key} is in no lock file any more: scripts/supply.py --add"
    for table in sorted(set(known) - {"locks", *packages.of}):
        yield f"{REVIEWED}: unknown table {table}"


# -- Images


def images(path, text):
    """Images that a file names, with their lines."""
    name = PurePosixPath(path).name
    if name.startswith("Dockerfile") or name.endswith((".dockerfile", ".Dockerfile")):
        stages = set()
        for number, line in enumerate(text.splitlines(), 1):
            if match := re.match(r"#\s*syntax\s*=\s*(\S+)", line, re.I):
                yield number, match.group(1)
            if match := re.match(r"\s*FROM\s+(?:--\S+\s+)*(\S+)(?:\s+AS\s+(\S+))?", line, re.I):
                if match.group(1) not in stages and match.group(1) != "scratch":
                    yield number, match.group(1)
                stages.add(match.group(2))
            for source in re.findall(r"--(?:from=|mount=\S*from=)([^\s,]+)", line):
                if source not in stages and not source.isdigit() and not line.lstrip().startswith("#"):
                    yield number, source
    elif name.endswith((".yml", ".yaml")):
        for number, line in enumerate(text.splitlines(), 1):
            if match := re.match(r"\s*(?:-\s+)?[\"']?image[\"']?\s*:\s*[\"']?([^\s\"'#]+)", line):
                yield number, match.group(1)


def images_differ(root, paths, pins, release):
    """Images that are not pinned, a line each, and those whose digest is not known."""
    wrong, unknown, used = [], [], set()
    pinned, built = pins.get("images", {}), pins.get("built", {})
    for path in paths:
        if not (PurePosixPath(path).suffix in (".yml", ".yaml") or "ockerfile" in PurePosixPath(path).name):
            continue
        for number, image in images(path, (root / path).read_text()):
            place = f"{path}:{number}: {image}"
            tagged, _, digest = image.partition("@")
            used.add(tagged)
            if tagged in built:
                if not (root / built[tagged]).is_file():
                    wrong.append(f"{PINS}: {tagged} is built from {built[tagged]}, which does not exist")
            elif ":" not in tagged.rpartition("/")[2] or tagged.endswith(":latest"):
                wrong.append(f"{place}: write name:tag@sha256:…")
            elif tagged not in pinned:
                wrong.append(f"{place}: {tagged} is not in {PINS}")
            elif pinned[tagged].get("digest") == UNKNOWN and not digest:
                unknown.append(f"{place}: its digest is not known")
            elif not DIGEST.fullmatch(digest) or pinned[tagged].get("digest") != digest:
                wrong.append(f"{place}: not the digest of {PINS}, {pinned[tagged].get('digest')}")
    for name in sorted((set(pinned) | set(built)) - used):
        wrong.append(f"{PINS}: {name} is used nowhere")
    for name, pin in pinned.items():
        if not pin.get("why", "").strip():
            wrong.append(f"{PINS}: {name} has no reason")
    return (wrong + unknown, []) if release else (wrong, unknown)


# -- Install commands

COMMANDS = [
    (re.compile(r"\bnpm\s+(?:--\S+\s+)*(?:ci|install|i|add|update|exec)\b(?!\()"), "--ignore-scripts"),
    (re.compile(r"\bnpx\s+-?\S"), "a package of a lock file, with npm run"),
    (re.compile(r"\bpip3?[\"']?\s+install\b"), "--require-hashes"),
    (re.compile(r"\bcargo\s+install\b"), "--locked"),
]
# Files whose commands are for users, who install what they like, and this file with its tests.
FOR_USERS = re.compile(r"docs/.*|proto/.*|CHANGELOG\.md|scripts/supply(_test)?\.py|.*/(package-lock\.json|dist/.*)")
TEXT = (".sh", ".py", ".mjs", ".ts", ".tsx", ".js", ".rs", ".md", ".yml", ".yaml", ".toml", ".json", ".txt", ".in",
        "Makefile", "Dockerfile", "run")


def commands_differ(root, paths):
    """Install commands without the option that they must have, a line each."""
    for path in paths:
        if FOR_USERS.fullmatch(path) or not path.endswith(TEXT):
            continue
        for number, line in enumerate((root / path).read_text(errors="replace").splitlines(), 1):
            for command, option in COMMANDS:
                if command.search(line) and option not in line:
                    yield f"{path}:{number}: {command.search(line).group(0)} without {option}"


def check(root, release=False, compiled=None):
    """Everything that is wrong, a line each, what is only to be told, and the number of packages."""
    paths = locks.tracked(root)
    known = reviewed(root)
    packages = locks.read(root, paths, known.get("locks", {}), compiled)
    try:
        pins = tomllib.loads((root / PINS).read_text())
    except (FileNotFoundError, tomllib.TOMLDecodeError) as error:
        raise Invalid(f"{PINS}: {error}") from error
    wrong, told = images_differ(root, paths, pins, release)
    wrong += packages_differ(packages, known)
    wrong += commands_differ(root, paths)
    return wrong, told, sum(1 for _ in packages)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    arguments.add_argument("--check", action="store_true")
    arguments.add_argument("--add", action="store_true")
    arguments.add_argument("--release", action="store_true")
    asked = arguments.parse_args()
    if asked.add == asked.check:
        arguments.error("one of --check and --add")
    try:
        if asked.add:
            known = reviewed(ROOT)
            packages = locks.read(ROOT, locks.tracked(ROOT), known.get("locks", {}))
            text = written(packages, known)
            (ROOT / REVIEWED).write_text(text)
            print(f"{REVIEWED}: {sum(1 for _ in packages)} packages, {text.count(OPEN_ENTRY)} without a reason")
            return 0
        wrong, told, count = check(ROOT, asked.release)
    except Invalid as invalid:
        print(f"supply: {invalid}", file=sys.stderr)
        return 1
    for line in told:
        print(f"supply: {line}")
    for line in wrong:
        print(f"supply: {line}", file=sys.stderr)
    if not wrong:
        print(f"supply: {count} packages are as reviewed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
