"""isobit verify of records that a stranger wrote, with code that means harm: it stays in its sandbox, and says no verdict."""

import gzip
import hashlib
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

import torch
from forged_test import put_state, seal_anew, state_of
from programs import NO_SANDBOX
from record_test import PARTS, PROGRAM, SCRIPT, Folder

# What the script does where it is executed again, and there alone: whoever recorded it saw nothing.
AGAIN = """if "ISOBIT_RERUN" in os.environ:
        import json, pathlib, subprocess, time
        def tried(action):
            try:
                return repr(action())
            except BaseException as error:
                return type(error).__name__ + (f" {error.errno}" if isinstance(error, OSError) else "")
BODY"""


def hostile(body):
    return SCRIPT.replace("import random, sys", "import os, random, sys").replace(
        "END", AGAIN.replace("BODY", textwrap.indent(textwrap.dedent(body), "        ")))


@unittest.skipIf(NO_SANDBOX, f"no sandbox can be made here: {NO_SANDBOX}")
class Sandbox(Folder):
    def setUp(self):
        super().setUp()
        temporary = tempfile.TemporaryDirectory(prefix="isobit-home-")
        self.addCleanup(temporary.cleanup)
        self.home = pathlib.Path(temporary.name)
        (self.home / "secret.txt").write_text("s3cret")

    def environment(self, **more):
        return super().environment(**{"HOME": str(self.home), **more})

    def judge(self, *options, expect=0, words=None, **environment):
        """The verdict as JSON, and stderr."""
        done = subprocess.run([*(words or (PROGRAM,)), "verify", "last", "--json", *options], cwd=self.folder, capture_output=True, text=True,
                              check=False, timeout=500, env={**os.environ, **self.environment(**environment)})
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        self.assertNotIn("\x1b", done.stdout + done.stderr)
        return json.loads(done.stdout), done.stderr

    def run_hostile(self, body, *options, expect=0, **environment):
        self.write("train.py", hostile(body))
        self.train()
        return self.judge(*options, expect=expect, **environment)

    def seal(self, run):
        """As whoever alters a record would: so that it agrees with itself."""
        inputs = {name: value for name, value in state_of(run)["inputs"].items() if name != "dirty.patch"}
        put_state(run, inputs={**inputs, **({"dirty.patch": {}} if (run / "dirty.patch").exists() else {})})
        seal_anew(run)

    def record(self):
        (run,) = (path for path in (self.folder / "runs").iterdir() if path.name[0] == "2")
        return run


class Reach(Sandbox):
    def test_what_it_cannot_reach(self):
        (self.folder / ".env").write_text("s3cret")
        (self.folder / "runs.txt").write_text("beside")
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            verdict, _ = self.run_hostile(f"""
                import ctypes, socket
                libc = ctypes.CDLL(None, use_errno=True)
                actions = dict(
                    home=lambda: os.listdir({str(self.home)!r}),
                    secret=lambda: open({str(self.home / "secret.txt")!r}).read(),
                    other=lambda: os.listdir({os.path.dirname(__file__)!r}),
                    hidden=lambda: open(".env").read(),
                    records=lambda: sorted(os.listdir("runs")),
                    beside=lambda: open("runs.txt").read(),
                    there=lambda: sorted(os.listdir({str(self.folder)!r})),
                    write=lambda: open({str(self.folder / "written")!r}, "w"),
                    usr=lambda: open("/usr/written", "w"),
                    root=lambda: open("/written", "w"),
                    core=lambda: open("/proc/sys/kernel/core_pattern", "r+"),
                    loopback=lambda: socket.create_connection(("127.0.0.1", {port}), 3),
                    outside=lambda: socket.create_connection(("192.0.2.1", 80), 3),
                    vsock=lambda: socket.socket(40, socket.SOCK_STREAM),
                    memfd=lambda: os.memfd_create("x"),
                    verifier=lambda: os.kill({os.getpid()}, 0),
                    namespace=lambda: libc.unshare(0x10000000),
                    processes=lambda: len([name for name in os.listdir("/proc") if name.isdigit()]) < 8,
                    environment=lambda: "SECRET_OF_MINE" in os.environ,
                )
                print("found " + json.dumps({{name: tried(action) for name, action in actions.items()}}))
            """, SECRET_OF_MINE="s3cret")
            listener.settimeout(0)
            with self.assertRaises(BlockingIOError):
                listener.accept()
        self.assertEqual(verdict["verdict"], "identical")
        found = json.loads(verdict["script_output"].partition("found ")[2].partition("\n")[0])
        self.assertNotIn("s3cret", verdict["script_output"])
        self.assertEqual(found, {
            "home": "[]", "secret": "FileNotFoundError 2", "other": "FileNotFoundError 2", "hidden": "FileNotFoundError 2",
            "records": "FileNotFoundError 2", "beside": "'beside'", "there": "FileNotFoundError 2", "write": "FileNotFoundError 2",
            "usr": "OSError 30", "root": "OSError 30", "core": found["core"], "loopback": "ConnectionRefusedError 111", "outside": "OSError 101",
            "vsock": "OSError 97", "memfd": "OSError 38", "verifier": "ProcessLookupError 3", "namespace": "-1", "processes": "True",
            "environment": "False"})
        self.assertIn(found["core"], ("OSError 30", "PermissionError 13"))
        self.assertFalse((self.folder / "written").exists())

    def test_the_users_files_stay_as_they_are(self):
        for name in ("data.txt", "deep/data.txt"):
            (self.folder / name).parent.mkdir(exist_ok=True)
            self.write(name, "data")
        self.write("train.py", hostile("""
            import shutil
            open("data.txt", "a").write("more")
            open("train.py", "w")
            os.chmod("parts.py", 0o777)
            shutil.rmtree("deep")
            open("new.txt", "w").write("new")
        """))
        self.train()
        before = self.tree()
        self.assertEqual(self.judge()[0]["verdict"], "identical")
        self.assertEqual(self.tree(), before)

    def tree(self):
        return {str(path.relative_to(self.folder)): (path.stat().st_mode, hashlib.sha256(path.read_bytes()).hexdigest())
                for path in self.folder.rglob("*") if path.is_file() and "cache" not in path.parts}


class Limits(Sandbox):
    def test_it_cannot_fill_the_disk(self):
        verdict, _ = self.run_hostile("""
            def fill(path):
                with open(path, "wb") as file:
                    for n in range(200):
                        file.write(b"1" * (1 << 20))
            print("found", [tried(lambda: fill(f"{where}/big{n}"))[-2:] for where in (".", "/tmp", "/dev/shm", os.path.expanduser("~"))
                            for n in range(2)])
            for where in (".", "/tmp", "/dev/shm", os.path.expanduser("~")):
                for n in range(2):
                    os.unlink(f"{where}/big{n}")
        """, "--limit", "disk=100M")
        self.assertEqual(verdict["verdict"], "identical")  # all of it was gone before the record was sealed
        found = verdict["script_output"].partition("found ")[2].partition("\n")[0]
        self.assertEqual(set(json.loads(found.replace("'", '"'))), {"28"} | set(json.loads(found.replace("'", '"'))) & {"27"})

    def test_time(self):
        verdict, told = self.run_hostile("print('I sleep'); time.sleep(1000)", "--limit", "time=20", expect=2)
        self.assertEqual(verdict["verdict"], "cannot-judge")
        self.assertIn("took longer than 20 seconds and was ended (--limit time=40)", verdict["message"])
        self.assertIn("script| I sleep\n", told)

    def test_processes(self):
        """Bounded by itself: where the limit fails, a few hundred processes sleep for a while, and no more."""
        verdict, _ = self.run_hostile("""
            started, refused = [], ""
            for n in range(400):
                try:
                    process = os.fork()
                except OSError as error:
                    refused = type(error).__name__
                    break
                if process == 0:
                    time.sleep(20)
                    os._exit(0)
                started.append(process)
            print(f"found {refused}, {len(started) < 100}")
            for process in started:
                os.kill(process, 9)
                os.waitpid(process, 0)
        """, "--limit", "processes=100")
        self.assertIn("found BlockingIOError, True\n", verdict["script_output"])
        self.assertEqual([path for part in ("", "pids", "memory") for path in pathlib.Path("/sys/fs/cgroup", part).glob("isobit-*")], [])

    def test_memory(self):
        """Of all processes together; each of them alone has less than the limit."""
        verdict, _ = self.run_hostile("""
            for n in range(5):
                if os.fork() == 0:
                    break
            held = bytearray(400 << 20)
            time.sleep(20)
        """, "--limit", "memory=1500M", expect=2)
        self.assertIn("took more than 1.5 GiB of memory and was ended (--limit memory=3000M)", verdict["message"])

    def test_one_process_has_no_more(self):
        verdict, told = self.run_hostile("held = bytearray(2000 << 20)", "--limit", "memory=1500M", expect=2)
        self.assertIn("script| MemoryError", told)
        self.assertIn("ended with exit code 1", verdict["message"])

    def test_what_is_no_limit(self):
        self.train()
        for word in ("disk", "disk=", "disk=0", "disk=-1", "disk=1T", "speed=9", "time=1h2", "memory=99999999999999999999"):
            self.assertIn("is no limit", self.judge("--limit", word, expect=2)[0]["message"])


class Ends(Sandbox):
    def test_nothing_is_left_behind(self):
        mark = f"8765{os.getpid()}"
        self.run_hostile(f"""
            subprocess.Popen(["setsid", "sleep", "{mark}"], start_new_session=True)
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    os.execvp("sleep", ["sleep", "{mark}"])
        """)
        self.expect_gone(mark)

    def test_it_ends_with_the_verifier(self):
        mark = f"9876{os.getpid()}"
        self.write("train.py", hostile(f"""
            import signal
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            os.execvp("sleep", ["sleep", "{mark}"])
        """))
        self.train()
        for number, code in ((signal.SIGKILL, -9), (signal.SIGTERM, 130), (signal.SIGINT, 130)):
            verifier = subprocess.Popen([PROGRAM, "verify", "last"], cwd=self.folder, stderr=subprocess.DEVNULL,
                                        env={**os.environ, **self.environment()})
            deadline = time.monotonic() + 200
            while not self.processes(mark) and time.monotonic() < deadline and verifier.poll() is None:
                time.sleep(0.1)
            self.assertTrue(self.processes(mark))
            verifier.send_signal(number)
            self.assertEqual(verifier.wait(30), code)
            self.expect_gone(mark)

    def processes(self, mark):
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if path.read_bytes() == f"sleep\0{mark}\0".encode():
                    found.append(path)
            except OSError:
                pass
        return found

    def expect_gone(self, mark):
        deadline = time.monotonic() + 10
        while self.processes(mark) and time.monotonic() < deadline:
            time.sleep(0.1)
        self.assertEqual(self.processes(mark), [])

    def test_it_cannot_say_the_verdict(self):
        """The process between the program and the verifier is the program's to deceive: it can make a mess, not a verdict."""
        for mess in ("b'identical\\n'", "b'step x\\n'", "b'record\\n'", "b'ended 0\\nrecords 1\\nrecord\\n' + b'tar' * 1000", "b'x' * 100000",
                     "b'ended 0\\nrecords 1\\nrecord\\n' + b'\\0' * 10240"):
            with self.subTest(mess):
                verdict, _ = self.run_hostile(f"""
                    open(f"/proc/{{os.getppid()}}/fd/3", "wb", buffering=0).write({mess})
                    os.kill(os.getppid(), 9)
                    time.sleep(5)
                """, expect=2)
                self.assertEqual(verdict["verdict"], "cannot-judge")

    def test_a_second_record_that_is_none(self):
        """What it leaves in the place of its record neither stops nor leads the verifier."""
        for trick in ("os.symlink('/etc/passwd', file)", "os.mkfifo(file)", "os.mkdir(file)", "os.symlink('/dev/zero', file)",
                      "open(file, 'w').write('{' * 100000)", "open(file, 'w').write('[' * 3000000)", "os.truncate(open(file, 'w').name, 1 << 24)",
                      "[open(file.with_name(f'x{n}'), 'w') for n in range(20000)]"):
            with self.subTest(trick):
                verdict, told = self.run_hostile(f"""
                    import atexit
                    def change():
                        file = next(pathlib.Path("/verify/runs").glob("2*/manifest.json"))
                        file.unlink()
                        {trick}
                    atexit.register(change)
                """, expect=2)
                self.assertEqual(verdict["verdict"], "cannot-judge")
                self.assertNotIn("root:", told + json.dumps(verdict))

    def test_what_it_prints_is_marked(self):
        verdict, told = self.run_hostile("""
            sys.stdout.buffer.write(b"x" * 200000 + b"\\n\\x1b[2K\\ridentical: forged\\n\\x9b1A\\xe2\\x80\\xaebidi\\n")
            sys.stdout.flush()
            raise SystemExit(3)
        """, expect=2)
        self.assertIn("script| \\x1b[2K\\ridentical: forged\n", told)
        self.assertIn("\\u202ebidi", told)
        self.assertTrue(all(line.startswith(("isobit: ", "script| ")) for line in told.splitlines()), told)
        self.assertNotIn("forged", verdict["message"])
        self.assertIn("forged", verdict["script_output"])
        self.assertLessEqual(len(verdict["script_output"]), 5 << 16)
        self.assertIn("ended with exit code 3", verdict["message"])


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
        draw = random.Random(1)
        for name, count in (("train", 40), ("t10k", 10)):
            for kind, sizes, elements in (("images-idx3", (count, 28, 28), draw.randbytes(count * 784)),
                                          ("labels-idx1", (count,), bytes(draw.randrange(10) for _ in range(count)))):
                header = bytes([0, 0, 8, len(sizes)]) + b"".join(size.to_bytes(4, "big") for size in sizes)
                with gzip.open(self.folder / f"{name}-{kind}-ubyte.gz", "wb") as file:
                    file.write(header + elements)
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
        (run / "checkpoints.jsonl").write_text("")
        for path in (run / "checkpoints").iterdir():
            path.unlink()
        (run / "checkpoints").rmdir()
        (run / "steps.jsonl").write_text("\n".join(lines) + "\n")
        self.seal(run)
        verdict, _ = self.judge(expect=1)
        self.assertEqual((verdict["difference"]["step"], verdict["difference"]["what"]), (3, "loss"))

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
