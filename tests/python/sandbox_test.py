"""isobit verify of records that a stranger wrote, with code that means harm: it stays in its sandbox, and says no verdict."""

import hashlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import textwrap
import time
import unittest

from programs import NO_SANDBOX
from record_test import PROGRAM, SCRIPT, Folder
from records import put_state, seal_anew, state_of

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

    def test_ways_of_the_kernel(self):
        """What a process may ask of the kernel: other processes, keys, terminals, namespaces, what its parent left open."""
        name = "\0isobit-test-" + os.urandom(8).hex()
        cache = pathlib.Path(self.environment()["XDG_CACHE_HOME"])
        terminal, inside = os.openpty()
        self.addCleanup(os.close, terminal)
        self.addCleanup(os.close, inside)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(name)
            listener.listen()
            self.write("train.py", hostile(f"""
                import ctypes, fcntl, socket, stat
                libc = ctypes.CDLL(None, use_errno=True)
                def call(*arguments):
                    ctypes.set_errno(0)
                    result = libc.syscall(*arguments)
                    return "done" if result != -1 else os.strerror(ctypes.get_errno())
                def connect():
                    with socket.socket(socket.AF_UNIX) as other:
                        return other.connect({name!r})
                def elsewhere():
                    found = [os.readlink(f"/proc/self/fd/{{name}}") if os.path.lexists(f"/proc/self/fd/{{name}}") else "" for name in
                             os.listdir("/proc/self/fd") if int(name) > 2]
                    return [path for path in found if path and not path.startswith(("/verify/runs/", "pipe:", "/proc/"))]
                word = ctypes.create_string_buffer(b"user"), ctypes.create_string_buffer(b"isobit"), ctypes.create_string_buffer(b"x")
                parent = os.getppid()
                actions = dict(
                    abstract=connect,
                    descriptors=elsewhere,
                    add_key=lambda: call(248, *word, 1, -3),
                    keyctl=lambda: call(250, 0, -3, 0),
                    ptrace=lambda: call(101, 16, parent, 0, 0),
                    other_memory=lambda: call(310, parent, 0, 0, 0, 0, 0),
                    memory_of_1=lambda: open("/proc/1/mem", "rb").read(1),
                    environment_of_1=lambda: "SECRET_OF_MINE" in open("/proc/1/environ").read(),
                    io_uring=lambda: call(425, 1, 0),
                    bpf=lambda: call(321, 0, 0, 0),
                    perf=lambda: call(298, 0, 0, -1, -1, 0),
                    userfaultfd=lambda: call(323, 0),
                    mount=lambda: call(165, b"none", b"/tmp", b"tmpfs", 0, 0),
                    pivot=lambda: call(155, b"/", b"/"),
                    handle=lambda: call(304, -100, 0, 0),
                    clone_user=lambda: call(56, 0x10000000 | 17, 0, 0, 0, 0),
                    setns=lambda: [call(308, os.open(f"/proc/{{parent}}/ns/{{kind}}", os.O_RDONLY), 0) for kind in ("net", "mnt", "user")],
                    chroot=lambda: os.chroot("/tmp"),
                    root=lambda: os.setuid(0),
                    device=lambda: os.mknod("/tmp/disk", 0o600 | stat.S_IFBLK, os.makedev(8, 0)),
                    tiocsti=lambda: [fcntl.ioctl(number, 0x5412, b"x") for number in (0, 1, 2)],
                    tty=lambda: os.open("/dev/tty", os.O_RDWR),
                    pts=lambda: os.open({os.ttyname(inside)!r}, os.O_RDWR),
                    cache=lambda: open({str(cache / "isobit" / "runs.sqlite")!r}, "r+b"),
                    priority=lambda: os.nice(-5),
                    clock=lambda: time.clock_settime(time.CLOCK_REALTIME, 1),
                    hostname=lambda: socket.sethostname("x"),
                    oom=lambda: open("/proc/1/oom_score_adj", "w").write("-1000"),
                    sysrq=lambda: open("/proc/sysrq-trigger", "w").write("b"),
                    modules=lambda: call(313, 0, b"", 0),
                )
                print("found " + json.dumps({{name: tried(action) for name, action in actions.items()}}))
            """))
            self.train()
            verdict, _ = self.judge("--limit", "time=5m", SECRET_OF_MINE="s3cret")
            listener.settimeout(0)
            with self.assertRaises(BlockingIOError):
                listener.accept()
        self.assertEqual(verdict["verdict"], "identical", verdict)
        found = json.loads(verdict["script_output"].partition("found ")[2].partition("\n")[0])
        self.assertEqual(found.pop("descriptors"), "[]", found)
        self.assertEqual(found.pop("environment_of_1", "False"), "False")
        for action, result in found.items():
            self.assertRegex(result, "Error|not permitted|not implemented|No space|Invalid", (action, found))
            self.assertNotIn("'done'", result, (action, found))

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
        verifiers = []
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
            verifiers.append(verifier.pid)
        groups = [path for pid in verifiers for path in pathlib.Path("/sys/fs/cgroup").glob(f"**/isobit-*-{pid}-*")]
        self.assertEqual(groups, [])  # of the one killed, too: the next removes it

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

    def test_it_prints_without_end_and_signals_everybody(self):
        """kill(-1) and its process group: all that it reaches is in the sandbox. What is printed is kept to its end."""
        verdict, told = self.run_hostile("""
            for n in range(200):
                sys.stdout.write("x" * (1 << 20))
            print("now", flush=True)
            os.killpg(0, 0)
            os.kill(-1, 9)
            time.sleep(60)
        """, expect=2)
        self.assertEqual(verdict["verdict"], "cannot-judge")
        self.assertLessEqual(len(verdict["script_output"]), 5 << 16)
        self.assertTrue(verdict["script_output"].rstrip().endswith("xnow"), verdict["script_output"][-200:])
        self.assertLess(len(told), 1 << 20)

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


if __name__ == "__main__":
    unittest.main()
