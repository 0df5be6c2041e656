#!/usr/bin/env python3
"""Writes unicode.bin: the tables of core/src/template/unicode.rs, as this Python's str methods see code points.

Run with the Python the references were made with; the table's Unicode version is printed.
"""
import html
import json
import struct
import sys
import unicodedata

LAST = 0x110000


def points():
    return (c for c in range(LAST) if not 0xD800 <= c < 0xE000)


def leb(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def ranges(test):
    out, start, end = bytearray(), None, 0
    for c in range(LAST + 1):
        inside = c < LAST and not 0xD800 <= c < 0xE000 and test(chr(c))
        if inside and start is None:
            start = c
        if not inside and start is not None:
            out += leb(start - end) + leb(c - start)
            start, end = None, c
    return bytes(out)


def mapping(method, among=points):
    """A bit for each ASCII character that changes; then strings, and runs of equal distance and stride 1 or 2."""
    bits, runs = bytearray(16), []
    for c in among():
        to = method(chr(c))
        if to == chr(c):
            continue
        if c < 0x80:
            bits[c // 8] |= 1 << c % 8
        if len(to) != 1:
            runs.append((c, c, to))
            continue
        distance = ord(to) - c
        if runs and len(runs[-1]) == 4:
            first, last, stride, same = runs[-1]
            if distance == same and (last == first and c - last <= 2 or c - last == stride):
                runs[-1] = (first, c, c - last, distance)
                continue
        runs.append((c, c, 1, distance))
    out, at = bytes(bits), 0
    for first, last, *how in runs:
        out += leb(first - at)
        if len(how) == 1:
            out += leb(len(how[0])) + b"".join(leb(ord(x)) for x in how[0])
        else:
            stride, distance = how
            zigzag = distance << 1 if distance >= 0 else (-distance << 1) - 1
            out += leb(1) + leb(last - first) + leb(stride) + leb(zigzag)
        at = last
    return out


def cased(c):
    # A cased letter makes the next one lower in a title.
    return (c + "A").title()[len(c.title()):] == "a"


def ignorable(c):
    # A sigma is final when a letter stands before it and none after it, ignorable ones skipped.
    return ("A" + c + "Σ").lower()[-1] == "ς" and not cased(c)


def ascii():
    return range(0x80)


tables = [
    ranges(str.isprintable),
    ranges(cased),
    ranges(ignorable),
    mapping(str.lower),
    mapping(str.upper),
    mapping(str.title),
    mapping(lambda c: json.dumps(c, ensure_ascii=False)[1:-1], ascii),
    mapping(lambda c: "'" if c == "'" else repr(c)[1:-1], ascii),
    mapping(lambda c: "\\'" if c == "'" else c, ascii),
    mapping(lambda c: html.escape(c).replace("&#x27;", "&#39;").replace("&quot;", "&#34;"), ascii),
]
with open(sys.argv[1], "wb") as out:
    out.write(struct.pack(f"<{len(tables)}H", *map(len, tables)) + b"".join(tables))
print("Unicode", unicodedata.unidata_version, "bytes", [len(t) for t in tables])
