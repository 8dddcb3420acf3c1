#!/usr/bin/env python3
"""Makes small data for the experiments beside this file, with Python's standard library alone.

    python3 examples/own-data/make_data.py [FOLDER]      # default: own-data

colours/   PNG files of 32 x 32 pixels in a folder per class (colours.toml)
houses.csv a table with a column of groups               (houses.toml)
tags.npz   arrays: measurements, and which of 4 tags hold (tags.toml)
words.txt  text for a language model                      (words.toml)

The bytes are the same on every machine.
"""

import random
import struct
import sys
import zipfile
import zlib
from pathlib import Path


def png(rows: list[bytes]) -> bytes:
    """8-bit RGB, no filters; deflate's stored blocks, so that the bytes depend on no version of zlib."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    raw = b"".join(b"\0" + row for row in rows)
    header = struct.pack(">IIBBBBB", len(rows[0]) // 3, len(rows), 8, 2, 0, 0, 0)
    stored = b"\x78\x01\x01" + struct.pack("<HH", len(raw), 0xFFFF - len(raw)) + raw + struct.pack(">I", zlib.adler32(raw))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", stored) + chunk(b"IEND", b"")


def npy(shape: tuple[int, ...], values: list[float]) -> bytes:
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape!r}, }}"
    header += " " * (63 - (len(header) + 10) % 64) + "\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header.encode() + struct.pack(f"<{len(values)}f", *values)


def below(draw: random.Random, n: int) -> int:
    return int(draw.random() * n)


def colours(folder: Path, draw: random.Random) -> None:
    tints = {"blue": (60, 80, 200), "green": (60, 180, 80), "red": (200, 70, 60), "yellow": (200, 190, 60)}
    for part, count in (("train", 60), ("test", 20)):
        for name, tint in tints.items():
            (folder / part / name).mkdir(parents=True, exist_ok=True)
            for i in range(count):
                left, top, side = below(draw, 16), below(draw, 16), 8 + below(draw, 8)
                rows = []
                for y in range(32):
                    row = bytearray()
                    for x in range(32):
                        inside = left <= x < left + side and top <= y < top + side
                        row += bytes(min(255, below(draw, 56) + (c if inside else 60)) for c in tint)
                    rows.append(bytes(row))
                (folder / part / name / f"{i:04}.png").write_bytes(png(rows))


def houses(file: Path, draw: random.Random) -> None:
    lines = ["street,rooms,area,age,price"]
    for street in range(40):
        level = draw.random()
        for _ in range(5 + below(draw, 11)):
            rooms, area, age = 1 + below(draw, 7), 30 + below(draw, 170), below(draw, 90)
            price = 0.5 + area / 100 + 0.1 * rooms - age / 200 + level + draw.random() / 10
            lines.append(f"street {street},{rooms},{area},{age},{price:.3f}")
    file.write_text("\n".join(lines) + "\n")


def tags(file: Path, draw: random.Random) -> None:
    x: list[float] = []
    y: list[float] = []
    for _ in range(600):
        values = [draw.random() * 2 - 1 for _ in range(16)]
        x += values
        y += [float(sum(values[4 * k : 4 * k + 4]) > 0) for k in range(4)]
    with zipfile.ZipFile(file, "w") as archive:
        for name, body in (("x", npy((600, 16), x)), ("y", npy((600, 4), y))):
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), body)


def words(file: Path, draw: random.Random) -> None:
    parts = (
        ("the small ", "the old ", "one ", "every "),
        ("model ", "reader ", "seed ", "machine "),
        ("trains ", "finds ", "repeats ", "forgets "),
        ("the same answer", "its weights", "a step", "nothing"),
    )
    lines = ["".join(part[below(draw, 4)] for part in parts) for _ in range(1200)]
    file.write_text(".\n".join(lines) + ".\n")


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "own-data")
    folder.mkdir(parents=True, exist_ok=True)
    colours(folder / "colours", random.Random(1))
    houses(folder / "houses.csv", random.Random(2))
    tags(folder / "tags.npz", random.Random(3))
    words(folder / "words.txt", random.Random(4))
    print(folder)


if __name__ == "__main__":
    main()
