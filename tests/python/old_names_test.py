"""Pickles and programs of before the rooms: names of modules that lay side by side in isobit still mean what they meant."""

import importlib
import io
import pathlib
import pickle
import subprocess
import sys
import unittest

import torch

import isobit
import isobit.math
from isobit import _old_names

# Made by the isobit before (pickle protocol 0). Of each: what it is now.
NAMED = {
    b"cisobit._switch\nenable\np0\n.": "enable",
    b"cisobit._switch\ndisable\np0\n.": "disable",
    b"cisobit._switch\nenabled\np0\n.": "enabled",
    b"cisobit._switch\ndisabled\np0\n.": "disabled",
    b"cisobit._switch\nis_enabled\np0\n.": "is_enabled",
    b"cisobit._switch\nisa\np0\n.": "isa",
    b"cisobit._switch\nrelease_memory\np0\n.": "release_memory",
    b"cisobit._switch\nseed\np0\n.": "seed",
    b"cisobit._fingerprint\nfingerprint\np0\n.": "fingerprint",
    b"cisobit._record\nrecord\np0\n.": "record",
    b"cisobit._trace\ntrace\np0\n.": "trace",
    b"cisobit._show\nshow\np0\n.": "show",
    b"cisobit._show\ntables\np0\n.": "tables",
    b"cisobit\nRefusedError\np0\n.": "RefusedError",
    b"cisobit\nRecordError\np0\n.": "RecordError",
}
TABLES = (b"ccopy_reg\n_reconstructor\np0\n(cisobit._show\nTables\np1\nc__builtin__\ndict\np2\n(dp3\nVsteps\np4\ng0\n(cisobit._show\n"
          b"Table\np5\ng2\n(dp6\nVstep\np7\n(lp8\nI1\naI2\nasVloss\np9\n(lp10\nF0.5\naF0.25\nastp11\nRp12\n(dp13\nVname\np14\ng4\nsbstp15\n"
          b"Rp16\n(dp17\nVclaimed\np18\n(lp19\ng9\nasb.")
PAGE = (b"ccopy_reg\n_reconstructor\np0\n(cisobit._show\nPage\np1\nc__builtin__\nobject\np2\nNtp3\nRp4\n(dp5\nVtext\np6\nV<p>\np7\n"
        b"sVheight\np8\nI760\nsb.")
TRACE = (b"\x80\x04\x95\x9e\x00\x00\x00\x00\x00\x00\x00\x8c\risobit._trace\x94\x8c\x05trace\x94\x93\x94)\x81\x94}\x94(\x8c\x04path\x94\x8c"
         b"\x01x\x94\x8c\x05first\x94K\x01\x8c\x05count\x94K\x01\x8c\x08_samples\x94K\x00\x8c\x0b_statistics\x94\x89\x8c\x07_values\x94\x8c"
         b"\x00\x94\x8c\x06_steps\x94K\x00\x8c\x05_open\x94\x89\x8c\x08_handles\x94]\x94\x8c\x06_began\x94G\x00\x00\x00\x00\x00\x00\x00\x00"
         b"ub.")
RECORD = (b"ccopy_reg\n_reconstructor\np0\n(cisobit._record\nrecord\np1\nc__builtin__\nobject\np2\nNtp3\nRp4\n(dp5\nV_again\np6\nNsV_runs\n"
          b"p7\ncpathlib\nPosixPath\np8\n(Vruns\np9\ntp10\nRp11\nsV_name\np12\nVn\np13\nsV_every\np14\nI50\nsV_is_stock\np15\nI00\n"
          b"sV_keeps_predictions\np16\nI00\nsV_gradients_every\np17\nI0\nsV_segments\np18\nI4\nsV_ending\np19\nV\np20\nsV_contract\np21\n"
          b"Vstock-2.13.0\np22\nsV_resume\np23\nNsV_until\np24\nNsV_progress\np25\nNsV_job\np26\nNsV_epoch\np27\nI1\nsV_steps_done\np28\n"
          b"I0\nsVid\np29\nNsVpath\np30\nNsV_process\np31\nNsV_state\np32\nVnot begun\np33\nsV_final\np34\nNsV_tracked\np35\n(dp36\nsb.")


def alone(program):
    """What it prints, in a process that has imported nothing."""
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


class Pickles(unittest.TestCase):
    def test_what_is_public_keeps_its_name(self):
        for content, name in NAMED.items():
            value = getattr(isobit, name)
            self.assertIs(pickle.loads(content), value)
            self.assertEqual(pickle.dumps(value, protocol=0), content)  # read by the isobit before, too
            self.assertEqual(value.__qualname__, name)
        self.assertEqual(sorted(NAMED.values()), sorted(name for name in isobit.__all__ if callable(getattr(isobit, name))))
        self.assertEqual(pickle.dumps(isobit.math.cos, protocol=0), b"cisobit.math\ncos\np0\n.")

    def test_objects(self):
        tables, page, tracing, run = map(pickle.loads, (TABLES, PAGE, TRACE, RECORD))
        self.assertEqual((tables["steps"]["loss"], tables["steps"].name, tables.claimed), ([0.5, 0.25], "steps", ["loss"]))
        self.assertEqual((repr(page), page.height), ("<isobit report, 3 characters>", 760))
        self.assertEqual((type(tracing), tracing.path, tracing.count), (isobit.trace, "x", 1))
        self.assertEqual((type(run), repr(run)), (isobit.record, "<isobit.record run none yet, state not begun, steps 0, epoch 1>"))
        self.assertEqual([pickle.dumps(value, protocol=0) for value in (tables, page)], [TABLES, PAGE])
        self.assertEqual(pickle.dumps(tracing, protocol=4), TRACE)

    def test_in_a_process_that_knows_nothing(self):
        """The first import of isobit is pickle's own."""
        self.assertEqual(alone(f"import pickle\ntables = pickle.loads({TABLES!r})\nimport isobit, sys\n"
                               "print(tables['steps']['step'], 'torch' in sys.modules)"), "[1, 2] False\n")
        self.assertEqual(alone("import pickle\nprint(pickle.loads(b'cisobit._switch\\nseed\\np0\\n.').__name__)"), "seed\n")

    def test_in_a_checkpoint(self):
        buffer = io.BytesIO()
        torch.save({"tables": pickle.loads(TABLES), "seeds": isobit.seed}, buffer)
        self.assertIn(b"isobit._show", buffer.getvalue())
        self.assertNotIn(b"isobit._views", buffer.getvalue())
        loaded = torch.load(io.BytesIO(buffer.getvalue()), weights_only=False)
        self.assertEqual((loaded["tables"]["steps"]["step"], loaded["seeds"]), ([1, 2], isobit.seed))


class Modules(unittest.TestCase):
    def test_each_is_the_one_in_its_room(self):
        for old, new in _old_names.MODULES.items():
            module = importlib.import_module(old)
            self.assertIs(module, sys.modules[new])
            self.assertEqual((module.__name__, module.__spec__.name), (new, new))
            self.assertIs(getattr(isobit, old.partition(".")[2]), module)

    def test_all_that_are_named_are_there(self):
        package = pathlib.Path(isobit.__file__).parent
        for room, names in _old_names.ROOMS.items():
            self.assertEqual([name for name in names if not (package / room / f"{name}.py").is_file()], [])

    def test_as_programs_wrote_them(self):
        self.assertEqual(alone("from isobit import _provenance\nimport isobit._generators as g\nimport isobit._job\n"
                               "from isobit._errors import RecordError\nimport isobit._jobs._job\n"
                               "print(_provenance.__name__, g.__name__, isobit._job is isobit._jobs._job, RecordError.__name__)"),
                         "isobit._recording._provenance isobit._base._generators True RecordError\n")

    def test_lazily(self):
        self.assertEqual(alone("import sys, isobit\nprint(sorted(name for name in sys.modules if name.startswith('isobit')))"),
                         "['isobit', 'isobit._base', 'isobit._base._errors', 'isobit._base._package', 'isobit._base._program_lines', "
                         "'isobit._built', 'isobit._components', 'isobit._old_names']\n")

    def test_others_are_not_there(self):
        for name in ("isobit._nothing", "isobit._record.record", "isobit._shared_memory"):
            with self.assertRaises(ModuleNotFoundError):
                importlib.import_module(name)
        finders = [finder for finder in sys.meta_path if type(finder).__module__ == "isobit._old_names"]
        self.assertEqual(len(finders), 1)
        _old_names.install()
        self.assertEqual([finder for finder in sys.meta_path if type(finder).__module__ == "isobit._old_names"], finders)


if __name__ == "__main__":
    unittest.main()
