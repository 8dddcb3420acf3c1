"""What a user can mend, in the C++ program's words: PLACE: PROBLEM (REMEDY)."""

import contextlib
import errno

_REMEDIES = {
    errno.ENOSPC: "free space there, or write to another folder", errno.EDQUOT: "free space there, or write to another folder",
    errno.EFBIG: "raise the limit of file sizes (ulimit -f)", errno.EROFS: "the file system is read-only: write to another folder",
    errno.EACCES: "check owner and permissions, or use another folder", errno.EPERM: "check owner and permissions, or use another folder",
    errno.ENOENT: "check the path", errno.ENOTDIR: "check the path"}


class Problem(Exception):
    def __init__(self, place, problem, remedy=""):
        super().__init__(f"{place}: {problem}" + f" ({remedy})" * bool(remedy))


@contextlib.contextmanager
def of_the_system(path, action):
    """An OSError within becomes one of the same kind that names the file, what was done to it and a remedy."""
    try:
        yield
    except OSError as error:
        if error.errno is None or getattr(error, "_isobit", False):
            raise
        remedy = _REMEDIES.get(error.errno, "")
        better = OSError(error.errno, f"{action}: {(error.strerror or '').lower()}" + f" ({remedy})" * bool(remedy), str(path))
        better._isobit = True
        raise better from None


def line_of_error(error):
    """What the command line says of it."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"isobit: {error.filename}: {error.strerror}"
    return f"isobit: {error}"
