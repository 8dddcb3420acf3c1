"""isobit verify of Python programs and networks: what a record may name, what a program may read, and that honest ones verify."""

import base64
import json
import os
import pathlib
import py_compile
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import zipfile
import zlib

import torch
from record_test import PARTS, PROGRAM, SCRIPT
from records import seal_anew, write_images
from sandbox_test import Sandbox

from isobit._proof import _checkout, _reading


class Paths(Sandbox):
    def change(self, name, content):
        run = self.record()
        before = (run / name).read_bytes() if (run / name).exists() else None
        (run / name).write_bytes(content)
        self.seal(run)

        def restore():
            (run / name).unlink()
            if before is not None:
                (run / name).write_bytes(before)
            self.seal(run)
        return restore

    def refused(self, name, content, *expected):
        restore = self.change(name, content.encode() if isinstance(content, str) else content)
        verdict, _ = self.judge(expect=2)
        self.assertEqual(verdict["verdict"], "cannot-judge")
        for text in expected:
            self.assertIn(text, verdict["message"])
        restore()

    def test_names_that_lead_out(self):
        self.train()
        text = (self.record() / "experiment.toml").read_text()
        sources = json.loads((self.record() / "sources.json").read_text())
        for key, value in (("file", "../train.py"), ("file", "/etc/passwd"), ("file", "-c"), ("file", "a\\u0000b"), ("file", ".git/x"),
                           ("file", "x\\u001b[2J"), ("file", "a/../../b"), ("folder", ".."), ("folder", "/"), ("folder", "-C"),
                           ("commit", "--output=x"), ("commit", "HEAD"), ("commit", "f" * 39), ("commit", "../x")):
            lines = [line for line in text.splitlines() if not line.startswith(f"{key} = ")]
            self.refused("experiment.toml", "\n".join([*lines, f'{key} = "{value}"']) + "\n", f"experiment.toml: {key}")
        self.refused("experiment.toml", text.replace("arguments = []", "arguments = 7"), "arguments")
        for name in ("../x", "/tmp/isobit-x", ".git/hooks/pre-commit", "a/./b", "a//b", "", "-x", "x\x07"):
            self.refused("sources.json", json.dumps({**sources, "files": {**sources["files"], name: "x"}}), "sources.json")
        self.refused("sources.json", '{"files": ' + "[" * 200000 + "]" * 200000 + "}")
        self.refused("sources.json", json.dumps({**sources, "files": {**sources["files"], "x": "\ud800"}}))
        self.refused("sources.json", json.dumps({**sources, "files": {"other.py": ""}}), "has no source of train.py")
        self.assertEqual(self.judge()[0]["verdict"], "identical")

    def test_patches_that_lead_out(self):
        git = ("git", "-c", "user.name=t", "-c", "user.email=t@example.org")
        self.call(*git, "init", "-q", ".")
        self.call(*git, "add", "train.py", "parts.py")
        self.call(*git, "commit", "-qm", "first")
        self.train()
        link = "diff --git a/x b/x\nnew file mode 120000\nindex 0000000..1111111\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+{}\n\\ No newline at end of file\n"
        file = "diff --git a/{0} b/{0}\nnew file mode 100644\nindex 0000000..1111111\n--- /dev/null\n+++ b/{0}\n@@ -0,0 +1 @@\n+x\n"
        self.refused("dirty.patch", link.format("/etc"), "leads out")
        self.refused("dirty.patch", link.format("../../x"), "leads out")
        for name in ("../x", "/tmp/isobit-x", ".git/hooks/post-checkout", "a/../../x"):
            self.refused("dirty.patch", file.format(name), "does not apply")
        self.refused("dirty.patch", link.format(".") + file.format("x/../../y"))
        restore = self.change("dirty.patch", (link.format("parts.py") + file.format("y")).encode())
        self.assertEqual(self.judge()[0]["verdict"], "identical")
        restore()
        self.assertFalse((self.folder.parent / "x").exists())

    def test_filters_and_attributes_play_no_part(self):
        """What a commit brings, or the repository's settings, decides neither the files nor what runs."""
        git = ("git", "-c", "user.name=t", "-c", "user.email=t@example.org")
        self.call(*git, "init", "-q", ".")
        self.write("made.txt", "$Format:%H$")
        self.write(".gitattributes", "made.txt export-subst\nparts.py export-ignore\n*.txt filter=bad\n")
        self.write("train.py", SCRIPT.replace("END", "assert open('made.txt').read() == '$Format:' + '%H$'"))
        self.call(*git, "add", "train.py", "parts.py", "made.txt", ".gitattributes")
        self.call(*git, "commit", "-qm", "first")
        self.train()
        self.call(*git, "config", "filter.bad.smudge", f"touch {self.folder}/ran; cat")
        hook = self.folder / ".git/hooks/post-checkout"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {self.folder}/ran\n")
        hook.chmod(0o755)
        (self.folder / "made.txt").unlink()
        self.assertEqual(self.judge()[0]["verdict"], "identical")
        self.assertFalse((self.folder / "ran").exists())


class Commit(Sandbox):
    """What a record says of its commit, held against what ran."""

    def setUp(self):
        super().setUp()
        self.git("init", "-q", ".")
        self.git("add", "train.py", "parts.py")
        self.git("commit", "-qm", "first")

    def git(self, *words):
        return self.call("git", "-c", "user.name=t", "-c", "user.email=t@example.org", *words)

    def another_folder(self):
        """Beside the repository's."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix="isobit-test-", dir=self.folder.parent))
        self.addCleanup(shutil.rmtree, folder)
        return folder

    def unproven(self):
        return self.judge()[0]["not_recomputed"][3:]

    def test_a_commit_that_is_not_what_ran(self):
        self.train()
        self.assertEqual(self.unproven(), [])
        self.write("parts.py", PARTS + "# another\n")
        self.git("commit", "-qam", "second")
        commit = self.git("rev-parse", "HEAD").strip()
        experiment = self.record() / "experiment.toml"
        experiment.write_text(re.sub('commit = ".*"', f'commit = "{commit}"', experiment.read_text()))
        self.seal(self.record())
        self.assertEqual(self.unproven(), [f"commit {commit[:12]} (other text ran: parts.py)"])
        (self.folder / "parts.py").write_text(PARTS + "# a third\n")
        (self.record() / "dirty.patch").write_text(self.git("diff", "HEAD"))
        self.seal(self.record())
        self.assertEqual(self.unproven(), [f"commit {commit[:12]} with dirty.patch (other text ran: parts.py)"])

    def test_a_script_that_is_in_no_commit(self):
        self.write("other.py", "")
        self.write("train.py", "import other\n" + SCRIPT.replace("END", "pass"))
        self.train()
        commit = self.git("rev-parse", "HEAD").strip()[:12]
        self.assertEqual(self.unproven(), [f"commit {commit} with dirty.patch (what ran is not in it: other.py)"])

    def test_a_source_that_was_not_recorded(self):
        """The commit has it, so the program can import it; whoever reads the sources does not see it."""
        self.train()
        sources = json.loads((self.record() / "sources.json").read_text())
        del sources["files"]["parts.py"]
        (self.record() / "sources.json").write_text(json.dumps(sources, indent=2) + "\n")
        self.seal(self.record())
        self.assertEqual(self.unproven(), ["sources that it imported and that were not recorded: parts.py"])

    def test_code_that_no_source_shows(self):
        """A commit can hold compiled code, or text that is not UTF-8, which runs and stands in no sources.json."""
        for name, content in (("helper.pyc", b""), ("helper.py", b"# -*- coding: latin-1 -*-\n# \xe9\nRATE = 0.1\n")):
            (self.folder / "helper.py").write_bytes(content or b"RATE = 0.1\n")
            if not content:
                py_compile.compile(str(self.folder / "helper.py"), str(self.folder / name))
                (self.folder / "helper.py").unlink()
            self.write("train.py", "import helper\n" + SCRIPT.replace("END", "pass"))
            self.git("add", "-f", name, "train.py")
            self.git("commit", "-qm", "helped")
            self.train()
            self.assertEqual(self.unproven(), [f"code that no source shows: {name}"])
            self.git("rm", "-q", name)
            shutil.rmtree(self.folder / "runs")

    def test_a_script_that_no_source_shows(self):
        """Python runs a zip file of that name."""
        with zipfile.ZipFile(self.folder / "packed.py", "w") as file:
            file.writestr("__main__.py", (self.folder / "train.py").read_text().replace('"runs"', '"runs", name="train"'))
            file.write(self.folder / "parts.py", "parts.py")
        self.git("add", "packed.py")
        self.git("commit", "-qm", "packed")
        self.train()
        run = self.record()
        experiment = run / "experiment.toml"
        experiment.write_text(experiment.read_text().replace('file = "train.py"', 'file = "packed.py"'))
        (run / "sources.json").write_text('{"format": "isobit-sources-1", "files": {}}\n')
        self.seal(run)
        self.assertIn("code that no source shows: packed.py", self.unproven())

    def test_text_that_does_not_read_as_it_runs(self):
        self.write("parts.py", "# coding: utf-7\n" + PARTS.replace("+", "+-") + "# A note.+AAo-RATE = 2\n")
        self.train()
        self.assertEqual(self.unproven()[-1], "whether parts.py reads as it runs (it declares the encoding utf-7)")

    def test_a_repository_that_names_a_folder_elsewhere(self):
        """Its settings came with it; the files of the folder that they name are not for the program."""
        private = self.another_folder()
        (private / "diary.txt").write_text("dear diary")
        self.write("train.py", "import os\nprint(os.listdir())\n" + SCRIPT.replace("END", "pass"))
        self.train()
        for worktree in (private, self.folder.parent):
            self.git("config", "core.worktree", str(worktree))
            verdict, _ = self.judge()
            self.assertIn("is no repository", verdict["not_recomputed"][-1])
            self.assertIn("train.py", verdict["script_output"])
            self.assertNotIn("diary", verdict["script_output"])
            self.assertNotIn(private.name, verdict["script_output"])

    def test_a_working_folder_behind_a_link(self):
        """It would be made where the commit's link leads."""
        outside = self.another_folder()
        (self.folder / "link").symlink_to(outside)
        self.git("add", "link")
        self.git("commit", "-qm", "linked")
        self.train()
        experiment = self.record() / "experiment.toml"
        experiment.write_text(experiment.read_text().replace('folder = "."', 'folder = "link/made"'))
        self.seal(self.record())
        self.assertIn("names a file outside its folder", self.judge(expect=2)[0]["message"])
        self.assertEqual(list(outside.iterdir()), [])


class Repositories(unittest.TestCase):
    """A repository that came with a record: its settings and objects are the stranger's."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="isobit-test-")).resolve()
        self.addCleanup(shutil.rmtree, self.folder)
        self.clone, self.out = self.folder / "clone", self.folder / "out"
        self.clone.mkdir()
        self.out.mkdir()
        self.git("init", "-q", ".")
        (self.clone / "data.txt").write_text("data" * 300000)
        (self.clone / "train.py").write_text("pass\n")
        (self.clone / "link").symlink_to("train.py")
        self.git("add", ".")
        self.git("commit", "-qm", "first")
        self.commit = self.git("rev-parse", "HEAD").strip()

    def git(self, *words):
        return subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *words], cwd=self.clone, check=True,
                              capture_output=True, text=True).stdout

    def refused(self, words):
        with self.assertRaisesRegex(_checkout.CannotJudge, words):
            _checkout.Repository(str(self.clone)).write_out(self.commit, self.out)

    def test_files_are_as_they_were_committed(self):
        _checkout.Repository(str(self.clone)).write_out(self.commit, self.out)
        self.assertEqual((self.out / "data.txt").read_text(), "data" * 300000)
        self.assertEqual(os.readlink(self.out / "link"), "train.py")

    def test_nothing_is_fetched(self):
        """By a git that does not know GIT_NO_LAZY_FETCH: what a partial clone lacks is fetched by a command of its settings."""
        ran, programs = self.folder / "ran", self.folder / "programs"
        for key, value in (("remote.origin.url", f"ext::sh -c touch% {ran}"), ("remote.origin.promisor", "true"),
                           ("remote.origin.partialclonefilter", "blob:none"), ("extensions.partialClone", "origin"),
                           ("core.repositoryformatversion", "1"), ("protocol.ext.allow", "always")):
            self.git("config", key, value)
        digest = self.git("rev-parse", "HEAD:data.txt").strip()
        (self.clone / ".git/objects" / digest[:2] / digest[2:]).unlink()
        programs.mkdir()
        (programs / "git").write_text(f'#!/bin/sh\nunset GIT_NO_LAZY_FETCH\nexec {shutil.which("git")} "$@"\n')
        (programs / "git").chmod(0o755)
        with unittest.mock.patch.dict(os.environ, PATH=f"{programs}:{os.environ['PATH']}"):
            self.refused("data.txt is missing")
        self.assertFalse(ran.exists())

    def test_links_that_lead_to_no_file(self):
        """Nothing is waited for, and no device is read."""
        os.mkfifo(self.folder / "pipe")
        for name, target in (("a.py", "/dev/zero"), ("b.py", self.folder / "pipe"), ("c.py", "/proc/kmsg"), ("d.py", self.folder)):
            (self.out / name).symlink_to(target)
        self.assertEqual(list(_reading.without_text(self.out, {})), [])
        self.assertEqual(_checkout.differing(dict.fromkeys(("a.py", "b.py", "d.py"), ""), self.out), [])

    def test_more_than_a_disk_holds(self):
        with unittest.mock.patch.object(_checkout, "MOST_FILES", 2):
            self.refused("more than 2 files")
        free = shutil.disk_usage(self.out)._replace(free=1 << 20)
        with unittest.mock.patch.object(shutil, "disk_usage", return_value=free):
            self.refused("more than the disk that is free")

    def test_a_patch_of_more_than_the_memory(self):
        size = 600 << 20
        packer = zlib.compressobj()
        packed = b"".join(packer.compress(bytes(100 << 20)) for _ in range(6)) + packer.flush()
        pieces = [packed[at:at + 52] for at in range(0, len(packed), 52)]
        lines = [chr(len(piece) + (64 if len(piece) <= 26 else 70)) + base64.b85encode(piece + b"\0" * (-len(piece) % 4)).decode()
                 for piece in pieces]
        patch = "\n".join(["diff --git a/x b/x", "new file mode 100644", f"index {'0' * 40}..{'1' * 40}", "GIT binary patch",
                           f"literal {size}", *lines, "", "literal 0", "HcmV?d00001", "", ""])
        with unittest.mock.patch.object(_checkout, "_half_of_memory", return_value=256 << 20):
            self.assertIn("memory", _checkout.apply_patch(self.out, patch.encode()))
        self.assertEqual(list(self.out.iterdir()), [])


class Reading(unittest.TestCase):
    def test_what_deceives(self):
        for text in ("# coding: utf-7\n", "# -*- coding: unicode_escape -*-\n", "#!/usr/bin/python\n# vim: set fileencoding=rot13 :\n",
                     "\ufeff# coding=hz\n", "# coding: latin-1\nx = '\u00e9'\n", "# a note\rx = 2\n", "x = 1  # \x1b[2K\n",
                     "x = '\u202e'\n", "\u3164 = 2\n", "# coding: iso2022_jp\n", "\r# coding: utf-7\n"):
            self.assertNotEqual(_reading.deceives(text), "", text)
        for text in ("", "x = 1\n", "# coding: utf-8\nx = '\u00e9 \u4e2d \u2714\ufe0f \U0001f469\u200d\U0001f466'\r\n",
                     "# -*- coding: UTF_8 -*-\n", "# coding: latin-1\nx = 1\n", "# coding: cp1252\n", "\ufeffx = 1\n\x0c\ny = '\t'\n",
                     "x = 1\n# coding: utf-7\n", "x = '\u05d0'\n", "#\n#\n# coding: utf-7\n"):
            self.assertEqual(_reading.deceives(text), "", text)


class Honest(Sandbox):
    def test_workers_a_package_in_the_home_and_data(self):
        environment = self.home / "project" / "venv"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--symlinks", environment], check=True)
        (packages,) = environment.glob("lib/python3*/site-packages")
        torch_packages = next(path for path in sys.path if (pathlib.Path(path) / "torch").is_dir())
        (packages / "torch.pth").write_text(f"{torch_packages}\n")
        (packages / "helper_of_mine.py").write_text("WIDTH = 9\n")
        self.write("parts.py", PARTS.replace("import torch", "import torch, helper_of_mine").replace("WORKERS = 0", "WORKERS = 2")
                   .replace("Linear(6, 9)", "Linear(6, helper_of_mine.WIDTH)"))
        self.write("train.py", SCRIPT.replace("END", "torch.save(model.state_dict(), 'model.pt')\n    assert open('data.txt').read() == 'data'"
                                                     "\n    print(open('deep/data.txt').read())"))
        self.write("data.txt", "data")
        (self.folder / "deep").mkdir()
        self.write("deep/data.txt", "deep")
        python = str(environment / "bin" / "python")
        self.call(python, "train.py")
        before = (self.folder / "model.pt").read_bytes()
        verdict, told = self.judge(words=(python, "-m", "isobit"))
        self.assertEqual((verdict["verdict"], verdict["to"]), ("identical", 8))
        self.assertIn("running train.py in a sandbox without network", told)
        self.assertEqual((self.folder / "model.pt").read_bytes(), before)

    def test_read(self):
        data = self.home / "data"
        data.mkdir()
        (data / "numbers.txt").write_text("17")
        (self.folder / "linked").symlink_to(data)
        for name in (f"{data}/numbers.txt", "linked/numbers.txt"):
            self.write("train.py", SCRIPT.replace("END", f"assert open({name!r}).read() == '17'"))
            self.train()
            verdict, told = self.judge(expect=2)
            self.assertIn(f"it misses {name} (if it may read that: --read {data}/numbers.txt)", verdict["message"])
            self.assertIn("script| FileNotFoundError", told)
            self.assertEqual(self.judge("--read", str(data))[0]["verdict"], "identical")
        self.assertIn("cannot be read within the sandbox", self.judge("--read", "/", expect=2)[0]["message"])
        self.assertIn("cannot be read within the sandbox", self.judge("--read", "/proc", expect=2)[0]["message"])

    def test_trust(self):
        self.write("data.txt", "data")
        self.write("train.py", SCRIPT.replace("END", "assert open('data.txt').read() == 'data'\n    assert os.path.exists('/verify') is False")
                   .replace("import random", "import os, random"))
        self.train()
        verdict, told = self.judge("--trust")
        self.assertEqual(verdict["verdict"], "identical")
        self.assertIn("running train.py without a sandbox, with all your rights (no commit; parts.py, train.py;", told)

    def test_where_no_sandbox_can_be_made(self):
        self.train()
        with tempfile.TemporaryDirectory() as folder:
            for name in ("git", "unshare"):
                (pathlib.Path(folder) / name).symlink_to(f"/usr/bin/{name}")
            verdict, _ = self.judge(expect=2, PATH=folder)
            self.assertIn("there is no bwrap on PATH (install Debian's package bubblewrap, or --trust", verdict["message"])
            self.assertEqual(self.judge("--trust", PATH=folder)[0]["verdict"], "identical")
            refusing = pathlib.Path(folder) / "bwrap"
            refusing.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
            refusing.chmod(0o755)
            verdict, _ = self.judge(expect=2, PATH=folder)
            self.assertIn("cannot run in a sandbox: bwrap: No permissions to create new namespace", verdict["message"])

    def test_the_home_as_working_folder(self):
        self.train()
        done = subprocess.run([PROGRAM, "verify", "last", "--runs", self.folder / "runs"], cwd=self.home, capture_output=True, text=True, check=False,
                              env={**os.environ, **self.environment()})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("holds the home folder: nothing in it is shown to the program", done.stderr)

    def test_without_a_seed(self):
        self.write("train.py", SCRIPT.replace("END", "pass").replace("isobit.seed(3)", "pass"))
        self.train()
        verdict, _ = self.judge(expect=1)
        self.assertEqual((verdict["verdict"], verdict["difference"]["step"]), ("different", 1))
        self.assertTrue(verdict["message"].endswith("; nothing seeded: call isobit.seed"), verdict["message"])

    def test_a_file_that_is_no_longer_what_was_recorded(self):
        self.train()
        self.write("parts.py", PARTS + "# more\n")
        verdict, told = self.judge()
        self.assertEqual(verdict["verdict"], "identical")
        self.assertIn("isobit: note: parts.py in . is no longer what was recorded", told)


class Network(Sandbox):
    """A run of the program whose network is a file of code."""

    def setUp(self):
        super().setUp()
        write_images(self.folder)
        network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10))
        torch.jit.script(network).save(str(self.folder / "net.pt"))
        self.write("small.toml", 'name = "script"\nbatch = 10\nsteps = 4\n[data]\nformat = "idx"\npath = "."\n[model]\n'
                                 'name = "torchscript"\ntorchscript = "net.pt"\n[optimizer]\nname = "sgd"\nlr = 0.1\n'
                                 '[checkpoint]\nevery = 2\n')
        self.call(PROGRAM, "run", "small.toml")

    def test_it_runs_in_a_sandbox(self):
        verdict, told = self.judge()
        self.assertEqual((verdict["verdict"], verdict["to"], verdict["weights"]), ("identical", 4, verdict["recorded_weights"]))
        self.assertIn("running the network net.pt in a sandbox", told)
        self.assertIn("leave out --from and --to", self.judge("--from", "2", expect=2)[0]["message"])
        self.assertEqual(self.judge("--trust", "--from", "2")[0]["verdict"], "identical")
        (self.folder / "net.pt").rename(self.folder / "other.pt")
        self.assertIn("net.pt: no such file", self.judge(expect=2)[0]["message"])
        self.write("net.pt", "other")
        self.assertIn("is not the network that was recorded", self.judge(expect=2)[0]["message"])

    def test_a_difference_is_found(self):
        run = self.record()
        lines = (run / "steps.jsonl").read_text().splitlines()
        step = json.loads(lines[2])
        lines[2] = lines[2].replace(step["loss"], f"{int(step['loss'], 16) ^ 1:08x}")
        (run / "steps.jsonl").write_text("\n".join(lines) + "\n")
        seal_anew(str(run))
        verdict, _ = self.judge(expect=1)
        self.assertEqual((verdict["difference"]["step"], verdict["difference"]["what"]), (3, "loss"))

    @unittest.skipUnless("avx2" in pathlib.Path("/proc/cpuinfo").read_text(), "this CPU has one capability")
    def test_it_is_traced_in_a_sandbox_and_diff_names_its_submodule(self):
        self.call(PROGRAM, "trace", "last", "--steps", "3:2", "--out", "inside")
        self.call(PROGRAM, "trace", "last", "--steps", "3:2", "--out", "outside", "--trust", "--values", "all")
        self.assertIn("results  equal", self.call(PROGRAM, "diff", "inside", "outside"))
        lines = [json.loads(line) for line in (self.folder / "inside").read_text().splitlines()]
        keys = {(line["phase"], line["module"], line["name"]) for line in lines if "phase" in line}
        self.assertLessEqual({("forward", "model.1", "aten::linear"), ("backward", "model.1", "aten::mm"), ("forward", "model.0", "aten::flatten")},
                             {(phase, module, name.split(".")[0]) for phase, module, name in keys})
        self.assertEqual([line["record"] for line in lines if "end" in line], ["agrees"] * 2)
        # Stock PyTorch on two instruction sets: the network's own operator is named.
        body = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 5), torch.nn.ReLU())
        torch.jit.script(torch.nn.Sequential(body, torch.nn.Flatten(), torch.nn.Linear(4 * 576, 10))).save(str(self.folder / "conv.pt"))
        stock = ("--set", "model.torchscript=conv.pt", "--set", "arithmetic.kind=stock", "--threads", "1", "--runs", "stock", "--capability")
        for capability in ("default", "avx2"):
            self.call(PROGRAM, "run", "small.toml", *stock, capability)
        first, second = sorted(path.name for path in (self.folder / "stock").iterdir() if path.name[0] == "2")
        found = json.loads(self.call(PROGRAM, "diff", first, second, "--runs", "stock", "--json", expect=1))
        self.assertEqual((found["operator"]["module"], found["operator"]["name"]), ("model.0.0", "aten::conv2d"), found)
        self.assertEqual(found["not_looked_into"], "")
        self.write("conv.pt", "other")
        found = json.loads(self.call(PROGRAM, "diff", first, second, "--runs", "stock", "--json", expect=1))
        self.assertIn("is not the network that was recorded", found["not_looked_into"])

    def test_a_terminal_sees_how_far_it_is(self):
        write_images(self.folder, train=4000)
        self.write("small.toml", (self.folder / "small.toml").read_text().replace("steps = 4", "steps = 2000"))
        shutil.rmtree(self.folder / "runs")
        self.call(PROGRAM, "run", "small.toml")
        code, seen = self.on_terminal([PROGRAM, "verify", "last"])
        self.assertEqual(code, 0, seen)
        steps = [int(step) for step in re.findall(r"\x1b\[Kstep (\d+) of 2000", seen)]
        self.assertEqual(steps, sorted(steps))
        self.assertTrue(any(0 < step <= 2000 for step in steps), seen)

    def test_files_that_it_names(self):
        """A record names data and network: only what has the recorded digest is shown to the code."""
        run = self.record()
        text = (run / "experiment.toml").read_text()
        for old, new in (('train_images = "train-images-idx3-ubyte.gz"', f'train_images = "..{self.home}/secret.txt"'),
                         ('torchscript = "net.pt"', f'torchscript = "{self.home}/secret.txt"')):
            self.assertIn(old, text)
            (run / "experiment.toml").write_text(text.replace(old, new))
            self.seal(run)
            self.assertEqual(self.judge(expect=2)[0]["verdict"], "cannot-judge")


if __name__ == "__main__":
    unittest.main()
