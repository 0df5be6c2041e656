#!/usr/bin/env python3
"""Writes unicode.bin: the tables of core/src/template/unicode.rs, as this Python's str methods see code points.

Run with the Python the references were made with; the table's Unicode version is printed.
"""
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


def mapping(pairs):
    """Runs of equal distance and stride 1 or 2."""
    runs = []
    for c, to in pairs:
        if runs:
            first, last, stride, distance = runs[-1]
            if to - c == distance and (last == first and c - last <= 2 or c - last == stride):
                runs[-1] = (first, c, c - last, distance)
                continue
        runs.append((c, c, 1, to - c))
    out, at = bytearray(), 0
    for first, last, stride, distance in runs:
        zigzag = distance << 1 if distance >= 0 else (-distance << 1) - 1
        out += leb(first - at) + leb(last - first) + leb(stride) + leb(zigzag)
        at = last
    return bytes(out)


def strings(entries):
    out = bytearray()
    for c, to in entries:
        out += leb(c) + leb(len(to)) + b"".join(leb(ord(x)) for x in to)
    return bytes(out)


def split(method, known=lambda c: None):
    single, many = [], []
    for c in points():
        to = method(chr(c))
        if to == known(chr(c)) or known(chr(c)) is None and to == chr(c):
            continue
        if len(to) == 1:
            single.append((c, ord(to)))
        else:
            many.append((c, to))
    return single, many


def cased(c):
    # A cased letter makes the next one lower in a title.
    return (c + "A").title()[len(c.title()):] == "a"


def ignorable(c):
    # A sigma is final when a letter stands before it and none after it, ignorable ones skipped.
    return ("A" + c + "Σ").lower()[-1] == "ς" and not cased(c)


lower, lower_many = split(str.lower)
assert [c for c, _ in lower_many] == [0x130]
upper, upper_many = split(str.upper)
title, title_many = split(str.title, str.upper)
tables = [
    ranges(str.isprintable),
    ranges(cased),
    ranges(ignorable),
    mapping(lower),
    mapping(upper),
    strings(upper_many),
    mapping(title),
    strings(title_many),
]
with open(sys.argv[1], "wb") as out:
    out.write(struct.pack("<8H", *map(len, tables)) + b"".join(tables))
print("Unicode", unicodedata.unidata_version, "bytes", [len(t) for t in tables])
