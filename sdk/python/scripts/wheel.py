"""Builds the wheels of the package: one for every platform, and with BINARY one that also installs the server.

usage: wheel.py [BINARY] [--out DIR] [--tag TAG]

The platform wheel has the server's program among its scripts, so that no Python stands between signals and the server. Its tag
comes from the symbols that the program needs. --tag: the platform that the wheel has to support, such as
manylinux_2_28_x86_64; the program is refused if it needs a newer one.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

from elf import NotElf, read_elf

PACKAGE = Path(__file__).resolve().parents[1]
BILL = PACKAGE.parents[1] / "supply/threadline.cdx.json"
"""The bill of materials, which the wheel has beside the program (PEP 770)."""
LIBRARIES = re.compile(r"lib(c|m|dl|rt|pthread|util|resolv)\.so\.\d+|libgcc_s\.so\.1|ld-linux-[a-z0-9-]+\.so\.\d+")
"""Libraries that every platform of a manylinux tag has (PEP 600)."""
OLDEST = 17
"""The oldest glibc 2 that installers look for."""


def tag_of(binary: Path) -> str:
    """The platform tag of a program (PEP 600): that of the newest glibc whose symbols it needs."""
    elf = read_elf(binary)
    others = [library for library in elf.libraries if not LIBRARIES.fullmatch(library)]
    if others:
        sys.exit(f"{binary} needs {', '.join(others)}, which not every Linux has: link it statically")
    if not elf.libraries:
        # A static program runs with any C library.
        return f"manylinux_2_{OLDEST}_{elf.machine}.musllinux_1_1_{elf.machine}"
    versions = [version for versions in elf.versions.values() for version in versions]
    minors = [int(found[1]) for version in versions if (found := re.fullmatch(r"GLIBC_2\.(\d+)(?:\.\d+)?", version))]
    return f"manylinux_2_{max([OLDEST, *minors])}_{elf.machine}"


def promises(wanted: str, needed: str) -> bool:
    """True if all platforms of a tag can run what needs another one."""
    forms = [re.fullmatch(r"manylinux_2_(\d+)_(\w+)", tag) for tag in (wanted, needed.split(".", maxsplit=1)[0])]
    if forms[0] is None or forms[1] is None:
        return wanted in needed.split(".")
    return forms[0][2] == forms[1][2] and int(forms[0][1]) >= int(forms[1][1])


def version_of(binary: Path) -> str:
    said = subprocess.run([str(binary), "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return said.split()[-1]


def build(out: Path, environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)]
    subprocess.run(command, cwd=PACKAGE, env={**os.environ, **environment}, check=True)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0] if __doc__ else None)
    arguments.add_argument("binary", nargs="?", type=Path, help="program of the server (default: only the wheel without it)")
    arguments.add_argument("--out", type=Path, default=PACKAGE / "dist", help="directory of the wheels (default: dist)")
    arguments.add_argument("--tag", help="platform that the wheel has to support")
    chosen = arguments.parse_args()
    out = chosen.out.resolve()
    if chosen.binary is None:
        return build(out, {})
    binary = chosen.binary.resolve()
    try:
        needed = tag_of(binary)
    except NotElf as error:
        sys.exit(str(error))
    if chosen.tag is not None and not promises(chosen.tag, needed):
        sys.exit(f"{binary} needs {needed}, and the wheel has to support {chosen.tag}: build the program on an older system")
    package = re.search(r'__version__ = "(.+)"', (PACKAGE / "src/threadline/_version.py").read_text())
    if package is None or version_of(binary) != package[1]:
        sys.exit(
            f"{binary} has the version {version_of(binary)}, and the package {package and package[1]}: build the program of this package"
        )
    build(out, {})
    build(out, {"THREADLINE_BINARY": str(binary), "THREADLINE_TAG": chosen.tag or needed, "THREADLINE_BILL": str(BILL)})


if __name__ == "__main__":
    main()
