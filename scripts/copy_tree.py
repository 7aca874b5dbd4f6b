#!/usr/bin/env python3
"""Copies the work tree with a patch applied: copy_tree.py DIRECTORY PATCH, or --check PATCH … to check that patches apply.

Only files whose text differs are written, so that a build in the copy compiles only the changed files.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def listed(*options):
    command = ["git", "-C", str(ROOT), "ls-files", "-z", *options]
    return subprocess.run(command, check=True, capture_output=True).stdout.decode().split("\0")[:-1]


def patched(patch):
    """The files of the work tree, the patch applied: path → (bytes, mode)."""
    names = [name for name in listed("--cached", "--others", "--exclude-standard") if (ROOT / name).is_file()]
    files = {name: ((ROOT / name).read_bytes(), (ROOT / name).stat().st_mode) for name in names}
    with tempfile.TemporaryDirectory() as directory:
        touched = [line[6:] for line in patch.read_text().splitlines() if line.startswith(("--- a/", "+++ b/"))]
        for name in touched:
            if name in files:
                (Path(directory) / name).parent.mkdir(parents=True, exist_ok=True)
                (Path(directory) / name).write_bytes(files[name][0])
        # A patch whose context does not match exactly may change another place, so it is refused.
        applied = subprocess.run(
            ["git", "apply", "--recount", "--whitespace=nowarn", str(patch.resolve())],
            cwd=directory,
            env={"GIT_CEILING_DIRECTORIES": str(Path(directory).parent), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )
        if applied.returncode != 0:
            sys.exit(f"{patch} does not apply: {applied.stderr.strip()}")
        for name in touched:
            path = Path(directory) / name
            if path.is_file():
                files[name] = (path.read_bytes(), files.get(name, (b"", 0o644))[1])
    return files


def write(directory, files):
    for name, (data, mode) in files.items():
        path = directory / name
        if not path.is_file() or path.read_bytes() != data:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        path.chmod(mode & 0o777)
    for path in sorted(directory.rglob("*")):
        if path.is_file() and path.relative_to(directory).as_posix() not in files:
            path.unlink()


def main(arguments):
    if arguments[:1] == ["--check"]:
        for patch in map(Path, arguments[1:]):
            if not patch.read_text().partition("\n\n")[0].rpartition("Breaks: ")[2].strip():
                sys.exit(f"{patch} does not say what it breaks")
            patched(patch)
        print(f"{len(arguments) - 1} planted bugs apply")
        return
    directory, patch = map(Path, arguments)
    write(directory, patched(patch))


if __name__ == "__main__":
    main(sys.argv[1:])
