#!/usr/bin/env python3
"""Writes supply/threadline.cdx.json, the bill of materials of the server (CycloneDX 1.6).

usage: sbom.py           write it anew
       sbom.py --check   exit 1 if it is not what the lock files say

Components are the packages in the server and in the console that it contains (scope `required`), and those that their build runs
or reads (scope `excluded`). Tests and examples have none of their own here: they are in supply/reviewed.toml. Everything comes from
the lock files, and the reach of a package from supply/reviewed.toml, so that the same commit has the same bytes everywhere.
"""

import base64
import hashlib
import json
import sys
import tomllib
import uuid
from pathlib import Path
from urllib.parse import quote

import locks
from locks import Invalid

ROOT = Path(__file__).resolve().parent.parent
BILL = "supply/threadline.cdx.json"
# Scope of CycloneDX for what is in the program, and for what is not, but made it.
SCOPES = {"runtime": "required", "build": "excluded"}
# Names of versions of this document, so that equal ones have equal serial numbers.
SPACE = uuid.UUID("5f0c7c1e-6a0b-5c0e-9d52-3a6b3f0b7d11")


def purl(kind, name, version):
    return f"pkg:{kind}/{'/'.join(quote(part, safe='') for part in name.split('/'))}@{quote(version, safe='')}"


def hashes(digest):
    """Hash of the archive, in hex, from `sha256:hex` or `sha512:base64`."""
    name, _, content = digest.partition(":")
    if name == "sha512":
        return {"alg": "SHA-512", "content": base64.b64decode(content).hex()}
    return {"alg": "SHA-256", "content": content}


def edges(root, paths):
    """What each package needs, as pairs of (kind, name, version); the server itself is None."""
    for path in paths:
        text = (root / path).read_text() if path.endswith((".lock", "package-lock.json")) else ""
        if path == "Cargo.lock":
            entries, needs = locks.crate_graph(text)
            for node, entry in entries.items():
                for wanted in needs(node):
                    if "source" in entries[wanted]:
                        yield ("cargo", *node) if "source" in entry else None, ("cargo", *wanted)
        elif path.endswith("package-lock.json"):
            entries, needs, _ = locks.npm_graph(json.loads(text))
            key = lambda place, entries=entries: ("npm", locks.npm_name(place, entries[place]), entries[place]["version"])
            inside = [place for place in entries if "node_modules/" in place and not entries[place].get("link")]
            for place in inside:
                for wanted in needs(place):
                    if wanted in inside:
                        yield key(place), key(wanted)
            for wanted in needs("", ("dependencies", "devDependencies")):
                if wanted in inside:
                    yield None, key(wanted)


def bill(root):
    """The document as text: a component and a dependency a line each."""
    known = tomllib.loads((root / "supply/reviewed.toml").read_text())
    version = tomllib.loads((root / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    server = purl("cargo", locks.PROGRAM, version)
    components, needs = {}, {server: set()}
    for kind in ("cargo", "npm"):
        for key, (reach, _, digest) in known.get(kind, {}).items():
            if reach in SCOPES:
                name, _, number = key.rpartition(" ")
                reference = purl(kind, name, number)
                needs[reference] = set()
                components[(kind, name, number)] = {
                    "type": "library", "bom-ref": reference, "name": name, "version": number, "scope": SCOPES[reach],
                    "hashes": [hashes(digest)], "purl": reference,
                }
    shipped = ["Cargo.lock", *sorted(known.get("locks", {}))]
    for source, wanted in edges(root, shipped):
        if wanted in components and (source is None or source in components):
            needs[server if source is None else components[source]["bom-ref"]].add(components[wanted]["bom-ref"])
    ordered = [components[key] for key in sorted(components)]
    line = lambda value: json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    body = ",\n".join([
        '"version":1',
        '"metadata":' + line({"lifecycles": [{"phase": "pre-build"}], "component": {
            "type": "application", "bom-ref": server, "name": locks.PROGRAM, "version": version, "purl": server,
            "licenses": [{"license": {"id": "Apache-2.0"}}]}}),
        '"components":[\n' + ",\n".join(map(line, ordered)) + "\n]",
        '"dependencies":[\n' + ",\n".join(line({"ref": name, "dependsOn": sorted(of)}) for name, of in sorted(needs.items())) + "\n]",
    ])
    serial = uuid.uuid5(SPACE, hashlib.sha256(body.encode()).hexdigest())
    return f'{{\n"bomFormat":"CycloneDX",\n"specVersion":"1.6",\n"serialNumber":"urn:uuid:{serial}",\n{body}\n}}\n'


def main():
    try:
        text = bill(ROOT)
    except (Invalid, FileNotFoundError, tomllib.TOMLDecodeError) as error:
        print(f"sbom: {error}", file=sys.stderr)
        return 1
    path = ROOT / BILL
    if sys.argv[1:] == ["--check"]:
        if not path.is_file() or path.read_text() != text:
            print(f"sbom: {BILL} is not what the lock files say: make sbom, and commit it", file=sys.stderr)
            return 1
        print(f"sbom: {BILL} is what the lock files say")
        return 0
    path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
