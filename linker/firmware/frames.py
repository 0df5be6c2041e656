#!/usr/bin/env python3
"""Prints the events of a firmware's output: frames.py ELF < OUTPUT

A line `defmt HEX` is one raw defmt frame: the index of the format string as u16, then its arguments, little-endian.
The index is the address of a symbol in the section .defmt, and the symbol's name is JSON with the format string.
Only numbers ({=u8} to {=u64}, {=i8} to {=i64}, {=bool}) are read: the core logs nothing else.
"""

import json
import re
import struct
import subprocess
import sys

FORMATS = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "i8": "b", "i16": "h", "i32": "i", "i64": "q", "bool": "?"}


def strings(elf: str) -> dict[int, tuple[str, str]]:
    """Level and format string of each index."""
    out = {}
    for line in subprocess.run(["nm", "--no-demangle", elf], check=True, capture_output=True, text=True).stdout.splitlines():
        address, _, name = line.split(" ", 2)
        if name.startswith("{"):
            symbol = json.loads(name)
            if symbol["tag"] in ("defmt_trace", "defmt_debug", "defmt_info", "defmt_warn", "defmt_error"):
                out[int(address, 16)] = (symbol["tag"].removeprefix("defmt_"), symbol["data"])
    return out


def event(table: dict[int, tuple[str, str]], frame: bytes) -> str:
    level, text = table[struct.unpack_from("<H", frame)[0]]
    at = 2

    def value(match: re.Match) -> str:
        nonlocal at
        form = "<" + FORMATS[match[1]]
        (number,) = struct.unpack_from(form, frame, at)
        at += struct.calcsize(form)
        return str(number)

    text = re.sub(r"\{=(\w+)\}", value, text)
    if at != len(frame):
        raise SystemExit(f"{len(frame) - at} bytes of a frame are left after {text!r}")
    return f"{level}: {text}"


def main() -> None:
    table = strings(sys.argv[1])
    for line in sys.stdin:
        if line.startswith("defmt "):
            print(event(table, bytes.fromhex(line.split()[1])))


if __name__ == "__main__":
    main()
