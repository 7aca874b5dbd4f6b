"""Libraries that an ELF file needs, with the versions of their symbols: what the tag of a wheel must promise."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, List, Set, Tuple

MACHINES = {62: "x86_64", 183: "aarch64"}
"""Names of architectures in tags, by `e_machine`."""
DYNAMIC, NEEDS = 6, 0x6FFFFFFE
"""Types of sections: dynamic linking, and versions of the symbols that are needed (`.gnu.version_r`)."""
LIBRARY = 1
"""Tag of an entry of the dynamic section: a library that is loaded (DT_NEEDED)."""


class NotElf(ValueError):
    """A file that is no 64-bit little-endian ELF file of a known architecture."""


@dataclass
class Elf:
    machine: str
    libraries: List[str] = field(default_factory=lambda: [])
    versions: Dict[str, Set[str]] = field(default_factory=lambda: {})
    """Versions of symbols by the library, such as `GLIBC_2.34` of `libc.so.6`."""


def read_elf(path: Path) -> Elf:
    """Reads the headers of a program (ELF-64 object file format, and the GNU extension of symbol versions)."""
    data = path.read_bytes()
    if len(data) < 64 or data[:6] != b"\x7fELF\x02\x01":
        raise NotElf(f"{path} is not a 64-bit little-endian ELF file: wheels with the server are built for Linux")
    machine = struct.unpack_from("<H", data, 18)[0]
    if machine not in MACHINES:
        raise NotElf(f"{path} is a program for the ELF machine {machine}: wheels are built for {' and '.join(MACHINES.values())}")
    offset = struct.unpack_from("<Q", data, 40)[0]
    size, count = struct.unpack_from("<HH", data, 58)
    # sh_name, sh_type, sh_flags, sh_addr, sh_offset, sh_size, sh_link, sh_info, sh_addralign, sh_entsize
    sections: List[Tuple[int, ...]] = [struct.unpack_from("<IIQQQQIIQQ", data, offset + n * size) for n in range(count)]

    def text(strings: int, at: int) -> str:
        begin = sections[strings][4] + at
        return data[begin : data.index(b"\0", begin)].decode()

    elf = Elf(MACHINES[machine])
    for _, kind, _, _, begin, length, link, info, _, _ in sections:
        if kind == DYNAMIC:
            for at in range(begin, begin + length, 16):
                tag, value = struct.unpack_from("<qQ", data, at)
                if tag == LIBRARY:
                    elf.libraries.append(text(link, value))
        elif kind == NEEDS:
            for _ in range(info):
                _, aux_count, file, aux, following = struct.unpack_from("<HHIII", data, begin)
                at = begin + aux
                for _ in range(aux_count):
                    _, _, _, name, next_aux = struct.unpack_from("<IHHII", data, at)
                    elf.versions.setdefault(text(link, file), set()).add(text(link, name))
                    at += next_aux
                begin += following
    return elf
