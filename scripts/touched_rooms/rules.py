"""What cannot be read from the tree: what a room's tests need, and which tests of the whole program are about a room."""

import re

# An eighth of what a change does not reach runs with each commit, in turn.
PARTS = 8

# What the tests of a room, or of a folder of tests/, need beside the packages of all tests (scripts/setup), and scripts that do.
# What is touched never skips for want of them.
SETUPS = {"slurm": "slurm", "slurm-local": "slurm", "report": "pages", "kernels": "qemu", "contract": "qemu", "golden": "qemu",
          "test-architectures": "qemu"}

# Folders whose tests go through the whole program, as every test in Python does: any room in it runs all but the longest.
WHOLE_PROGRAM = {"cli", "component"}

_NUMBERS = ("op_samples|exact|binary64|differential|everyday|distributions|sparse|grouped|composite|python_ops|guard_ways|stock"
            "|transforms|moments|large_batch|gpu_check|StockFloat64|Fingerprints|DeviceTraining|WideFunctions|isa_symbols")
_DATA = "data|batches|loaders|epoch"
_JOBS = "launch|workers|job|distributed|Workers"
_PROOF = "verify|forged|again|sandbox|segments|beside|place"
_RECORD = "record|resume|checkpoint|epoch|trace|forged"
# Names of tests about a room beside those that bear its name: of the longest tests of rooms that include it, and of those in
# Python.
ABOUT = {
    "contract": _NUMBERS, "kernels": _NUMBERS,
    "aten": _NUMBERS + "|refusal|bypass|guard|graph|torchscript|host_scalars",
    "archive": _RECORD + "|export", "samples": _DATA, "grains": "grains|steps|Workers", "train": "StockFloat64|Fingerprints",
    "trace": "trace", "jobs": _JOBS, "scale": _JOBS + "|ExactReduce", "proof": _PROOF, "report": "report|show", "bench": "bench",
}
# The same of the packages of python/isobit. What is not here, such as isobit/_base, is about all of them.
ABOUT_PACKAGE = {
    "_switching": "switch|refusal|bypass|guard|graph|torchscript|host_scalars|op_samples|ops|typing|transforms",
    "_recording": _RECORD, "_loops": _DATA + "|grains|steps|check|resume", "_jobs": _JOBS, "_proof": _PROOF,
    "_views": "show|notebook|check|front|bench|ops",
}

# Pages, examples and benchmarks: only tests that read them can fail, and all of them are compiled anyway.
PAGE = re.compile(r"(?:docs|examples|bench)/|[A-Z]+(?:\.md)?$|\.clang-(?:format|tidy)$|\.gitignore$")
# Tests that walk over all pages or examples.
WALKS = re.compile(r"""["'/](docs|examples|bench)["']""")
# What the build and the tests stand on runs everything; any other script runs the tests that name it.
SCRIPT = re.compile(r"scripts/(?!(?:test|test-minutes|touched|touched_rooms|setup|build)(?:/|$))([A-Za-z0-9_-]+)")
ROOM = re.compile(r"(?:src|apps)/([a-z_]+)/")
TEST_FOLDER = re.compile(r"tests/([a-z_]+)/")
TEST_FILE = re.compile(r"_test\.(?:py|cpp)$|\.transcript$")
