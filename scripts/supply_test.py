#!/usr/bin/env python3
"""Tests of supply.py and sbom.py: each change of what comes from outside is found, in a small repository made for it."""

import base64
import json
import shutil
import subprocess
import sys
import tempfile
import tomllib
import unittest
import uuid
from pathlib import Path

import locks
import sbom
import supply

CRATE, MACRO, TOOL = "a" * 64, "b" * 64, "c" * 64
IMAGE = "sha256:" + "d" * 64


def sha512(letter):
    return "sha512-" + base64.b64encode(letter.encode() * 64).decode()


def crate(name, version, checksum, needs=()):
    listed = ", ".join(f'"{need}"' for need in needs)
    source = f'source = "{locks.CRATES}"\nchecksum = "{checksum}"\n' if checksum else ""
    return f'[[package]]\nname = "{name}"\nversion = "{version}"\n{source}dependencies = [{listed}]\n\n'


FILES = {
    "Cargo.toml": '[workspace]\nmembers = ["."]\n[workspace.package]\nversion = "0.1.0"\n[package]\nname = "threadline"\n',
    "Cargo.lock": "version = 4\n\n" + crate("threadline", "0.1.0", "", ["linked", "tool"])
    + crate("linked", "1.0.0", CRATE, ["macro"]) + crate("macro", "2.0.0+a", MACRO) + crate("tool", "3.0.0", TOOL),
    "console/package.json": json.dumps({"dependencies": {"@x/shown": "1.0.0"}, "devDependencies": {"bundler": "2.0.0"}}),
    "console/package-lock.json": json.dumps({"lockfileVersion": 3, "packages": {
        "": {"dependencies": {"@x/shown": "1.0.0", "own": "file:../own"}, "devDependencies": {"bundler": "2.0.0", "tester": "3.0.0"}},
        "../own": {"name": "own", "version": "0.1.0"},
        "node_modules/own": {"resolved": "../own", "link": True},
        "node_modules/@x/shown": {"version": "1.0.0", "integrity": sha512("s"), "dependencies": {"inner": "1"}},
        "node_modules/@x/shown/node_modules/inner": {"version": "1.0.0", "integrity": sha512("i")},
        "node_modules/inner": {"version": "9.0.0", "integrity": sha512("o"), "dev": True},
        "node_modules/bundler": {"version": "2.0.0", "integrity": sha512("b"), "dev": True},
        "node_modules/tester": {"version": "3.0.0", "integrity": sha512("t"), "dev": True, "dependencies": {"inner": "9"}},
    }}),
    "tests/requirements.txt": f"direct==1.0 \\\n    --hash=sha256:{CRATE} \\\n    --hash=sha256:{MACRO}\n    # via -r requirements.in\n"
    f"inner-part==2.0 ; python_version < '3.13' \\\n    --hash=sha256:{TOOL}\n    # via\n    #   direct\n",
    "Dockerfile": f"FROM rust:1.94@{IMAGE} AS build\nRUN cargo build\nFROM base:12\nCOPY --from=build /out /out\n",
    "compose.yml": "services:\n  node:\n    image: own\n  cache:\n    image: redis:7\n",
    "setup.sh": "npm ci --ignore-scripts\npip install --require-hashes -r requirements.txt\n",
    "supply/pins.toml": f'[images]\n"rust:1.94" = {{ digest = "{IMAGE}", why = "compiles" }}\n"base:12" = {{ digest = "unknown", why = "base" }}\n'
    '"redis:7" = { digest = "unknown", why = "locks" }\n[built]\n"own" = "Dockerfile"\n',
}
SHIPS = '[locks]\n"console/package-lock.json" = { dependencies = true, build = ["bundler"] }\n'
COMPILED = ({("linked", "1.0.0")}, {("macro", "2.0.0+a")})


class Repository(unittest.TestCase):
    def setUp(self):
        self.root = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)
        subprocess.run(["git", "init", "-q", str(self.root)], check=True)
        for path, text in {**FILES, supply.REVIEWED: SHIPS}.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(text)
        subprocess.run(["git", "add", "."], cwd=self.root, check=True)
        self.add()
        self.edit(supply.REVIEWED, f'"{supply.OPEN}"', '"a reason"')
        self.assertEqual(self.found(), [])

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)
        subprocess.run(["git", "add", path], cwd=self.root, check=True)

    def edit(self, path, old, new):
        text = (self.root / path).read_text()
        self.assertIn(old, text)
        (self.root / path).write_text(text.replace(old, new))

    def add(self):
        known = supply.reviewed(self.root)
        packages = locks.read(self.root, locks.tracked(self.root), known.get("locks", {}), COMPILED)
        self.write(supply.REVIEWED, supply.written(packages, known))

    def found(self, release=False, compiled=COMPILED):
        try:
            return supply.check(self.root, release, compiled)[0]
        except locks.Invalid as invalid:
            return [str(invalid)]

    def refused(self, *words):
        """One finding has all these words."""
        found = self.found()
        self.assertTrue(any(all(word in line for word in words) for line in found), f"{words} in {found}")


class ReviewedPackages(Repository):
    def test_the_list_says_what_is_there(self):
        known = tomllib.loads((self.root / supply.REVIEWED).read_text())
        short = {kind: {key: entry[:2] for key, entry in known[kind].items()} for kind in ("cargo", "npm", "pip")}
        self.assertEqual(short, {
            "cargo": {"linked 1.0.0": ["runtime", "a reason"], "macro 2.0.0+a": ["build", "for linked"], "tool 3.0.0": ["test", "a reason"]},
            "npm": {"@x/shown 1.0.0": ["runtime", "a reason"], "inner 1.0.0": ["runtime", "for @x/shown"], "inner 9.0.0": ["test", "for tester"],
                    "bundler 2.0.0": ["build", "a reason"], "tester 3.0.0": ["test", "a reason"]},
            "pip": {"direct 1.0": ["test", "a reason"], "inner-part 2.0": ["test", "for direct"]},
        })

    def test_a_removed_line(self):
        for key in ("linked 1.0.0", "inner 1.0.0", "inner-part 2.0"):
            text = (self.root / supply.REVIEWED).read_text()
            self.write(supply.REVIEWED, "".join(line for line in text.splitlines(True) if not line.startswith(f'"{key}"')))
            self.refused(key, "is not listed")
            self.write(supply.REVIEWED, text)

    def test_a_changed_hash(self):
        for path, old, new, key in [
            ("Cargo.lock", CRATE, "e" * 64, "linked 1.0.0"),
            ("console/package-lock.json", sha512("i"), sha512("j"), "inner 1.0.0"),
            ("tests/requirements.txt", MACRO, "e" * 64, "direct 1.0"),
            ("tests/requirements.txt", f" \\\n    --hash=sha256:{MACRO}", "", "direct 1.0"),
            (supply.REVIEWED, TOOL, "e" * 64, "tool 3.0.0"),
        ]:
            text = (self.root / path).read_text()
            self.edit(path, old, new)
            self.refused(key, "hash")
            self.write(path, text)

    def test_a_new_package_and_a_new_version(self):
        self.edit("Cargo.lock", '["macro"]', '["macro", "stranger"]')
        self.write("Cargo.lock", (self.root / "Cargo.lock").read_text() + crate("stranger", "1.0.0", "f" * 64))
        self.refused("stranger 1.0.0", "is not listed")
        self.edit("tests/requirements.txt", "direct==1.0", "direct==1.1")
        self.refused("direct 1.1", "is not listed")
        self.refused("direct 1.0", "in no lock file")
        # A new version keeps the reason of the old one, and a new package has none.
        self.add()
        self.assertIn('"direct 1.1" = ["test", "a reason"', (self.root / supply.REVIEWED).read_text())
        self.assertEqual(self.found(), [])
        self.edit("Cargo.lock", '["linked", "tool"]', '["linked", "stranger", "tool"]')
        self.refused("stranger 1.0.0", "write why")
        self.add()
        self.refused("stranger 1.0.0", "write why")

    def test_a_package_that_comes_nearer_to_users(self):
        nearer = ({*COMPILED[0], ("tool", "3.0.0")}, COMPILED[1])
        self.assertTrue(any("tool 3.0.0" in line and "reach is runtime" in line for line in self.found(compiled=nearer)))
        lock = json.loads((self.root / "console/package-lock.json").read_text())
        lock["packages"][""]["dependencies"]["tester"] = lock["packages"][""]["devDependencies"].pop("tester")
        self.write("console/package-lock.json", json.dumps(lock))
        self.refused("needed by development alone")
        for place in ("node_modules/tester", "node_modules/inner"):
            del lock["packages"][place]["dev"]
        self.write("console/package-lock.json", json.dumps(lock))
        self.refused("tester 3.0.0", "reach is runtime")

    def test_a_lock_file_that_nobody_reads(self):
        self.write("tools/yarn.lock", "")
        self.refused("tools/yarn.lock", "not read")

    def test_a_manifest_without_a_lock_file(self):
        self.write("tools/package.json", json.dumps({"devDependencies": {"x": "1"}}))
        self.refused("tools/package.json", "no package-lock.json")


class Sources(Repository):
    def test_no_checksum(self):
        for path, old in [("Cargo.lock", f'checksum = "{CRATE}"\n'), ("console/package-lock.json", f', "integrity": "{sha512("i")}"'),
                          ("tests/requirements.txt", f" \\\n    --hash=sha256:{TOOL}")]:
            text = (self.root / path).read_text()
            self.edit(path, old, "")
            self.refused(path)
            self.write(path, text)

    def test_git_paths_and_foreign_registries(self):
        for path, old, new in [
            ("Cargo.lock", locks.CRATES, "git+https://example.com/linked"),
            ("Cargo.lock", locks.CRATES, "registry+https://example.com/index"),
            ("Cargo.lock", f'source = "{locks.CRATES}"\nchecksum = "{CRATE}"\n', ""),
            ("console/package-lock.json", '"integrity": "' + sha512("i"), '"resolved": "git+ssh://git@example.com/i", "integrity": "' + sha512("i")),
            ("console/package-lock.json", '"../own"', '"../../own"'),
            ("console/package-lock.json", '"integrity": "' + sha512("i"), '"resolved": "https://example.com/i.tgz", "integrity": "' + sha512("i")),
            ("tests/requirements.txt", "direct==1.0", "direct @ https://example.com/direct.whl"),
            ("tests/requirements.txt", "direct==1.0", "--extra-index-url https://example.com/\ndirect==1.0"),
            ("tests/requirements.txt", "direct==1.0", "direct>=1.0"),
        ]:
            text = (self.root / path).read_text()
            self.edit(path, old, new)
            self.refused(path)
            self.write(path, text)

    def test_two_hashes_of_one_version(self):
        self.write("zoo/requirements.txt", f"direct==1.0 --hash=sha256:{TOOL}\n    # via -r requirements.in\n")
        self.refused("zoo/requirements.txt", "another hash")

    def test_install_commands(self):
        for command, option in [("npm ci", "--ignore-scripts"), ("npm install --silent", "--ignore-scripts"), ("npx thing", "npm run"),
                                ("python3 -m pip install x", "--require-hashes"), ("cargo install x", "--locked")]:
            self.write("extra.sh", command + "\n")
            self.refused("extra.sh:1", option)
        self.write("extra.sh", "npm run build\nnpm test\ncargo install --locked x\n")
        self.assertEqual(self.found(), [])


class Images(Repository):
    def test_a_dropped_digest(self):
        self.edit("Dockerfile", f"@{IMAGE}", "")
        self.refused("Dockerfile:1", "rust:1.94", "digest")

    def test_another_digest_and_no_tag(self):
        self.edit("Dockerfile", IMAGE, "sha256:" + "e" * 64)
        self.refused("Dockerfile:1", "digest")
        for name in ("base", "base:latest", f"base@{IMAGE}"):
            self.write("Dockerfile", f"FROM {name}\n")
            self.refused("Dockerfile:1", "name:tag@sha256")

    def test_an_image_that_is_not_listed(self):
        for path, text in [("compose.yml", "services:\n  x:\n    image: 'new:1'\n"), ("Dockerfile", "FROM new:1\n"),
                           ("other/Dockerfile.test", "# syntax=new:1\n"), ("Dockerfile", "COPY --from=new:1 /a /a\n"),
                           ("Dockerfile", "FROM --platform=linux/amd64 new:1 AS x\n")]:
            self.write(path, text)
            self.refused(path, "new:1 is not in")

    def test_a_pin_that_nothing_uses(self):
        self.edit("compose.yml", "redis:7", "own")
        self.refused("redis:7", "used nowhere")

    def test_unknown_digests_are_told_and_refused_by_a_release(self):
        wrong, told, _ = supply.check(self.root, False, COMPILED)
        self.assertEqual((wrong, len(told)), ([], 2))
        self.assertEqual(len(self.found(release=True)), 2)


class Bill(Repository):
    def bill(self):
        return json.loads(sbom.bill(self.root))

    def test_it_has_what_is_in_the_server_and_what_builds_it(self):
        document = self.bill()
        found = {each["purl"]: (each["scope"], each["hashes"][0]["alg"]) for each in document["components"]}
        self.assertEqual(found, {
            "pkg:cargo/linked@1.0.0": ("required", "SHA-256"), "pkg:cargo/macro@2.0.0%2Ba": ("excluded", "SHA-256"),
            "pkg:npm/%40x/shown@1.0.0": ("required", "SHA-512"), "pkg:npm/inner@1.0.0": ("required", "SHA-512"),
            "pkg:npm/bundler@2.0.0": ("excluded", "SHA-512"),
        })
        needs = {each["ref"]: each["dependsOn"] for each in document["dependencies"]}
        self.assertEqual(needs["pkg:cargo/threadline@0.1.0"], ["pkg:cargo/linked@1.0.0", "pkg:npm/%40x/shown@1.0.0", "pkg:npm/bundler@2.0.0"])
        self.assertEqual(needs["pkg:npm/%40x/shown@1.0.0"], ["pkg:npm/inner@1.0.0"])
        self.assertEqual(set(needs), {*found, "pkg:cargo/threadline@0.1.0"})
        shown = next(each for each in document["components"] if each["name"] == "@x/shown")
        self.assertEqual(shown["hashes"][0]["content"], b"s".hex() * 64)

    def test_equal_locks_have_equal_bytes_and_others_do_not(self):
        first = sbom.bill(self.root)
        self.assertEqual(first, sbom.bill(self.root))
        uuid.UUID(self.bill()["serialNumber"].removeprefix("urn:uuid:"))
        self.edit(supply.REVIEWED, CRATE, "e" * 64)
        second = self.bill()
        self.assertNotEqual(json.loads(first)["serialNumber"], second["serialNumber"])
        self.assertNotEqual(json.loads(first)["components"], second["components"])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-b", *sys.argv[1:]], verbosity=1)
