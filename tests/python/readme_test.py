"""README: its table is what the kept results say, its commands and links exist, and it stays a page that one reads."""

import itertools
import json
import os
import pathlib
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

import isobit

SOURCE = pathlib.Path(os.environ["ISOBIT_SOURCE_DIR"])
PROGRAM = os.environ["ISOBIT_PROGRAM"]
SCRIPT = runpy.run_path(str(SOURCE / "scripts/readme-table"))
README = (SOURCE / "README.md").read_text(encoding="utf-8")
ROW = {"format": "isobit-bench-saved-1", "machine": {"cpu": "AMD EPYC", "cpu_family": 26, "cpu_model": 2}, "isa": "avx512",
       "commit": "isobit 0.2.0 (715e438b7937, g++ 12.2.0, release)", "date_utc": "2026-11-29T10:00:00Z", "peers": {"torch": "2.13.0"},
       "rounds": 9, "ratio": 0.5, "share": 0.004}


def readme_table(*arguments):
    return subprocess.run([sys.executable, SOURCE / "scripts/readme-table", *arguments], check=False, capture_output=True, text=True)


def commands(text):
    """What the page tells a reader to type: lines of indented blocks, and whole commands in backticks, without comments."""
    lines = [line[4:] for line in text.splitlines() if line.startswith("    ")]
    for command in [*lines, *re.findall(r"`((?:isobit|scripts/)[^`]*)`", text)]:
        if command.startswith(("isobit ", "scripts/")):
            yield shlex.split(command, comments=True)


def problems(words):
    """Why a command does not exist; nothing where it does."""
    if words[0].startswith("scripts/"):
        return [] if os.access(SOURCE / words[0], os.X_OK) else [f"no script {words[0]}"]
    done = subprocess.run([PROGRAM, words[1], "--help"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return [f"no command {words[1]}"]
    found = [f"isobit {words[1]} has no {word}" for word in words if word.startswith("--") and not re.search(rf"{word}\b", done.stdout)]
    return found + [f"no file {word}" for word in words if word.startswith("examples/") and not (SOURCE / word).is_file()]


def anchors(page):
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^a-z0-9 _-]", "", heading.lower()).replace(" ", "-") for heading in headings}


class Page(unittest.TestCase):
    def test_it_is_short(self):
        self.assertLessEqual(len(README.splitlines()), 120)

    def test_its_commands_exist(self):
        named = list(commands(README))
        self.assertGreater(len(named), 12)
        for words in named:
            self.assertEqual(problems(words), [], words)
        for missing in ("isobit rum x.toml", "isobit run --sett x", "scripts/demos", "isobit run examples/none.toml"):
            self.assertEqual(len(problems(shlex.split(missing))), 1, missing)
        for call in re.findall(r"^    isobit\.([a-z_]+)\(", README, re.MULTILINE):
            self.assertTrue(callable(getattr(isobit, call)))

    def test_its_links_lead_somewhere(self):
        links = re.findall(r"\]\(([^)]+)\)", README)
        self.assertGreater(len(links), 30)
        for link in links:
            path, _, anchor = link.partition("#")
            self.assertTrue((SOURCE / path).is_file(), link)
            if anchor:
                self.assertIn(anchor, anchors(SOURCE / path), link)

    def test_what_scripts_take_from_it(self):
        (promised,) = re.findall(r"^    (weights isobit-[0-9.]*:[0-9a-f]{32})$", README, re.MULTILINE)  # scripts/demo
        self.assertIn(promised.split()[1], (SOURCE / "src/cli/demo.cpp").read_text(encoding="utf-8"))
        made = re.search(r"`(isobit-0\.1:[0-9a-f]{32})`", README)[1]
        self.assertIn(made, (SOURCE / "tests/cli/demo.transcript").read_text(encoding="utf-8"))


class Table(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name in ("docs", "tests/golden"):
            shutil.copytree(SOURCE / name, self.root / name)
        shutil.copy(SOURCE / "README.md", self.root)
        (self.root / "bench/results").mkdir(parents=True)
        for entry in SCRIPT["TABLE"]:
            for model, (_, wanted) in itertools.product(getattr(entry, "models", ()), getattr(entry, "groups", ())):
                with (self.root / "bench/results" / entry.file).open("a", encoding="utf-8") as out:
                    out.write(json.dumps({**ROW, **wanted, "model": model, "waited": 0.03 if entry.is_time else None}) + "\n")
        self.file = self.root / "bench/results/step.jsonl"
        self.assertEqual(self.made().returncode, 0)
        self.page = (self.root / "README.md").read_text(encoding="utf-8")

    def rows(self, change):
        """The file with each row as `change` leaves it; None: without it."""
        rows = [change(json.loads(line)) for line in self.file.read_text(encoding="utf-8").splitlines()]
        self.file.write_text("".join(json.dumps(row) + "\n" for row in rows if row), encoding="utf-8")

    def made(self, *arguments):
        return readme_table("--root", self.root, *arguments)

    def refused(self, words):
        done = self.made("--check")
        self.assertEqual(done.returncode, 2)
        self.assertIn(words, done.stderr)

    def test_it_says_what_the_results_say(self):
        self.assertEqual(readme_table("--check").returncode, 0)
        block = README.split("by scripts/readme-table -->\n")[1].split("<!-- /table -->")[0]
        rows = [line for line in block.splitlines() if line.startswith("|")][2:]
        self.assertTrue(1 <= len(rows) <= 8)
        for row in rows:
            self.assertEqual(row.count("|"), 4, row)
            self.assertNotIn(";", row.split("|")[3])  # one machine each

    def test_all_of_it(self):
        self.assertEqual(self.page.count("| 0.50 to 0.50, geometric mean 0.50"), 4)
        self.assertIn("0.50 with 1 thread; 0.50 to 0.50, geometric mean 0.50 with 2 threads | AMD EPYC (Zen 5, AVX-512) |", self.page)
        self.assertIn("| 0.4 % and 0.4 % |", self.page)
        self.assertIn("medians of 9 rounds", self.page)
        self.assertIn("torch 2.13.0; 2026-11-29; others had the core for at most 3 %", self.page)
        self.assertEqual(sum(line.startswith("| ") for line in self.page.splitlines()), 9)

    def test_another_result_is_seen_and_written(self):
        self.rows(lambda row: {**row, "ratio": 0.0625} if row["model"] == "mlp" else row)
        done = self.made("--check")
        self.assertEqual(done.returncode, 1)
        self.assertIn("the results say\n  | ", done.stderr)
        self.assertIn("0.06 to ", done.stderr)
        self.assertEqual((self.root / "README.md").read_text(encoding="utf-8"), self.page)
        self.assertEqual(self.made().returncode, 0)
        self.assertIn("0.06 to ", (self.root / "README.md").read_text(encoding="utf-8"))
        self.assertEqual(self.made("--check").returncode, 0)

    def test_the_last_row_of_the_machine_counts(self):
        last = {}
        self.rows(lambda row: last.setdefault("row", row) if row["model"] == "mlp" and row["threads"] == 1 and "row" not in last else row)
        with self.file.open("a", encoding="utf-8") as out:
            out.write(json.dumps({**last["row"], "ratio": 0.03125}) + "\n")
            out.write(json.dumps({**last["row"], "ratio": 9.0, "machine": {**last["row"]["machine"], "cpu_family": 25}}) + "\n")
        self.assertIn("0.03 to ", self.made("--check").stderr)
        self.assertNotIn("9.00", self.made("--check").stderr)

    def test_what_is_not_measured_is_not_told(self):
        self.rows(lambda row: None if row["threads"] == 2 else row)
        done = self.made("--check")
        self.assertEqual(done.returncode, 1)  # README still says it
        self.assertIn("not measured, so not told: training step", done.stderr)
        self.assertEqual(self.made().returncode, 0)
        self.assertNotIn("with 2 threads", (self.root / "README.md").read_text(encoding="utf-8"))
        self.file.unlink()
        self.assertEqual(self.made().returncode, 0)
        self.assertNotIn("| training step", (self.root / "README.md").read_text(encoding="utf-8"))

    def test_what_is_measured_in_part_is_an_error(self):
        self.rows(lambda row: None if row["model"] == "gpt2" else row)
        self.refused("bench/results/step.jsonl: no row of 'gpt2' with {'threads': 1} on an AMD EPYC (Zen 5, AVX-512)")

    def test_what_others_disturbed_is_not_told(self):
        self.rows(lambda row: {**row, "waited": 0.11})
        self.refused("'mlp' with {'threads': 1}: others had the core while it was measured")
        self.rows(lambda row: {**row, "waited": None})
        self.refused("'mlp' with {'threads': 1}: others had the core while it was measured")

    def test_code_that_nobody_has_is_not_told(self):
        self.rows(lambda row: {**row, "commit": "isobit 0.2.0 (715e438b7937-dirty, g++ 12.2.0, release)"})
        self.refused("code that is not committed")

    def test_a_file_of_something_else_is_refused(self):
        self.file.write_text("hello\n", encoding="utf-8")
        self.refused("step.jsonl:1: no row that isobit bench saved")

    def test_a_page_without_the_block_is_refused(self):
        (self.root / "README.md").write_text("# isobit\n", encoding="utf-8")
        self.refused("no block between")

    def measured(self, program_text, minutes):
        """With a program that writes the row which it is asked for, as `program_text` leaves it."""
        program = self.root / "program"
        program.write_text(f"#!{sys.executable}\nimport json, pathlib, sys\nrow = json.loads({json.dumps(json.dumps(ROW))})\n"
                           "words = dict(zip(sys.argv[3::2], sys.argv[4::2]))\nhere = pathlib.Path(__file__).parent\n"
                           f"row |= {{'model': words['--models'], 'threads': int(words['--threads']), 'waited': 0.01}}\n{program_text}\n"
                           "pathlib.Path(words['--save']).write_text(json.dumps(row) + '\\n')\n")
        program.chmod(0o755)
        lines = self.file.read_text(encoding="utf-8").splitlines(keepends=True)
        self.file.write_text("".join(line for line in lines if '"mlp"' not in line or '"threads": 2' in line), encoding="utf-8")
        script = (f"import runpy, sys; sys.argv[1:] = ['--root', {str(self.root)!r}, '--measure', '{minutes}']\n"
                  f"names = runpy.run_path({str(SOURCE / 'scripts/readme-table')!r})\n"
                  "names['main'].__globals__['free_cores'] = lambda: 2.0\nsys.exit(names['main']())")
        return subprocess.run([sys.executable, "-c", script], env={**os.environ, "ISOBIT_PROGRAM": str(program)},
                              capture_output=True, text=True, check=False)

    def test_what_is_missing_is_measured_until_nobody_disturbs(self):
        done = self.measured("tried = here / 'tried'\nrow['waited'] = 0.01 if tried.exists() else 0.5\ntried.touch()\nrow['ratio'] = 0.25", 10)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("isobit bench step --models mlp --rounds 9 --threads 1: others had the core while it was measured (waited 0.5)", done.stderr)
        self.assertIn("isobit bench step --models mlp --rounds 9 --threads 1: kept", done.stderr)
        self.assertEqual(done.stderr.count("isobit bench"), 2)  # what was there is not measured again
        self.assertIn("| 0.25 to 0.50, ", (self.root / "README.md").read_text(encoding="utf-8"))
        self.assertNotIn('"waited":0.5', self.file.read_text(encoding="utf-8"))

    def test_the_time_to_measure_ends(self):
        done = self.measured("", 0)
        self.assertEqual(done.returncode, 2)
        self.assertIn("the time is over, and not all is measured", done.stderr)
        self.assertIn("no row of 'mlp'", done.stderr)

    def test_code_that_is_not_committed_is_not_measured(self):
        done = self.measured("row['commit'] = 'isobit 0.2.0 (715e438b7937-dirty)'", 10)
        self.assertEqual(done.returncode, 2)
        self.assertIn("was built from code that is not committed: commit it, and build again", done.stderr)

    def test_machines_have_the_names_that_people_use(self):
        for cpu, family, model, isa, name in (("AMD EPYC", 26, 2, "avx512", "AMD EPYC (Zen 5, AVX-512)"),
                                              ("AMD EPYC 7763 64-Core Processor", 25, 1, "avx2", "AMD EPYC (Zen 3, AVX2)"),
                                              ("AMD EPYC 9554 64-Core Processor", 25, 17, "avx512", "AMD EPYC (Zen 4, AVX-512)"),
                                              ("Intel(R) Xeon(R) Processor", 6, 207, "amx", "Intel Xeon (amx)")):
            row = {"machine": {"cpu": cpu, "cpu_family": family, "cpu_model": model}, "isa": isa}
            self.assertEqual(SCRIPT["machine_of"](row), name)


if __name__ == "__main__":
    unittest.main()
