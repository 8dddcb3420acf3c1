"""A file made by `isobit export`, unpacked without trust (docs/formats/export.md): the C++ program's rules (src/archive/tar_file.h)."""

import os
import pathlib
import re
import tarfile

from isobit._record_files import DamagedRecord, read_record

_PART = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,254}")


def _parts(name):
    """FOLDER/FILE or FOLDER/checkpoints/FILE in its parts; None for any other name."""
    parts = name.split("/")
    if not all(_PART.fullmatch(part) for part in parts):
        return None
    return parts if len(parts) == 2 or len(parts) == 3 and parts[1] == "checkpoints" else None


def unpack(archive, folder):
    """The folder of the record in `folder`, which must be empty; DamagedRecord unless it is what was exported."""
    archive, folder = pathlib.Path(archive), pathlib.Path(folder)
    size, top, seen = archive.stat().st_size, None, set()
    try:
        with tarfile.open(archive, "r:") as tar:
            for member in tar:
                if not member.isreg() or member.issparse():
                    raise DamagedRecord(f"{archive}: {member.name!r} is no plain file")
                parts = _parts(member.name)
                if parts is None or top not in (None, parts[0]):
                    raise DamagedRecord(f"{archive}: {member.name!r} is no name of a run's file")
                if member.name in seen:
                    raise DamagedRecord(f"{archive}: {member.name!r} is there twice")
                if member.size > size:
                    raise DamagedRecord(f"{archive}: {member.name!r} says that it is larger than the archive")
                seen.add(member.name)
                top = parts[0]
                target = folder.joinpath(*parts)
                target.parent.mkdir(parents=True, exist_ok=True)
                with open(target, "xb") as file:
                    _copy(tar.extractfile(member), file, member.size, archive)
    except (tarfile.TarError, EOFError, ValueError, UnicodeError) as error:
        raise DamagedRecord(f"{archive}: damaged, or not an exported run: {error}") from None
    if top is None:
        raise DamagedRecord(f"{archive}: not an exported run: it is empty")
    try:
        record = read_record(folder / top)
    except DamagedRecord as error:
        raise DamagedRecord(f"{archive}: {str(error).replace(str(folder) + os.sep, '')}; get the file again from where it was "
                            "exported") from None
    return folder / top, record


def _copy(source, target, size, archive):
    while size > 0:
        piece = source.read(min(size, 1 << 20))
        if not piece:
            raise DamagedRecord(f"{archive}: cut off")
        target.write(piece)
        size -= len(piece)
