"""Pages of isobit report in a browser: nothing on the console, texts are there and are texts, keyboard, contrast, phone, paper."""

import base64
import os
import pathlib
import sys
import unittest

import made_up
from cases import PAGES, Case
from chromium import FOUND, Browser

HOSTILE = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>"


def axe():
    """The text of axe-core, or None."""
    if "ISOBIT_AXE" in os.environ:
        return pathlib.Path(os.environ["ISOBIT_AXE"]).read_text()
    found = sorted(PAGES.glob("lib/python*/site-packages/axe_core_python/axe.min.js"))
    return found[0].read_text() if found else None


class Page(Case):
    @classmethod
    def setUpClass(cls):
        cls.browser, cls.axe = Browser(), axe()
        if cls.axe is None:
            if "pages" in os.environ.get("ISOBIT_REQUIRE", "").split():
                raise AssertionError("axe-core is not installed (scripts/setup --pages)")
            print("axe-core is not installed: accessibility is not looked at (scripts/setup --pages)", file=sys.stderr)

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()

    def open(self, page, **options):
        tab = self.browser.open((self.folder / page).as_uri(), **options)
        self.addCleanup(tab.close)
        return tab

    def text(self, tab):
        return tab.evaluate("document.body.innerText")

    def pair(self):
        first, second = self.make_run("first"), self.make_run("second")
        made_up.write(self.folder / "diff.json", made_up.diff(first, second))
        made_up.write(self.folder / "drift.json", made_up.drift(first, [second]))
        self.isobit("report", first, second, "--diff", "diff.json", "--drift", "drift.json", "--out", "page.html")
        return first, second

    def check_access(self, tab, what):
        if self.axe is None:
            return
        tab.evaluate("document.querySelectorAll('details').forEach(element => { element.open = true; })")
        tab.evaluate(self.axe + "; undefined")
        found = tab.evaluate("axe.run(document, {resultTypes: ['violations']}).then(result => result.violations.map("
                             "v => v.id + ': ' + v.nodes.slice(0, 3).map(node => node.html.slice(0, 160)).join(' | ')))")
        self.assertEqual(found, [], what)

    def test_one_run(self):
        run = self.make_run()
        self.isobit("report", "last", "--out", "page.html")
        tab = self.open("page.html")
        text = self.text(tab)
        for part in ("small", "0.5800", "finished, sealed", f"isobit verify {run}", "isobit-0.1:00112233445566778899aabbccddeeff", "Training loss at each step"):
            self.assertIn(part, text)
        self.assertEqual(tab.evaluate("document.querySelectorAll('.drawing svg').length"), 3)
        self.assertEqual(tab.evaluate("document.querySelectorAll('svg.qr').length"), 1)
        # A number leads to the run that it came from.
        self.assertEqual(tab.evaluate("document.querySelector('.tile a').getAttribute('href')"), "#run-1")
        self.assertIn(run, tab.evaluate("document.getElementById('run-1').textContent"))
        self.assertEqual(tab.errors, [])
        self.assertEqual([url for url in tab.requests if not url.startswith(("file:", "data:"))], [])
        # The policy holds: a script that was not written by this program does not run.
        tab.evaluate("(() => { const s = document.createElement('script'); s.textContent = 'window.hacked = 1'; document.body.append(s); })()")
        self.assertIsNone(tab.evaluate("window.hacked"))
        self.assertTrue(any("Content Security Policy" in error for error in tab.errors))

    def test_two_runs(self):
        self.pair()
        for dark in (False, True):
            tab = self.open("page.html", dark=dark)
            text = self.text(tab)
            for part in ("Results differ", "step 17", "aten::convolution", "features.conv1", "3 ULP at [12, 4, 7, 19]", "1,871 of 301,056", "arithmetic.kind", "does not count"):
                self.assertIn(part, text)
            self.assertEqual(tab.errors, [])
            self.check_access(tab, f"dark: {dark}")

    def test_keyboard(self):
        self.pair()
        tab = self.open("page.html")
        tab.press("Tab")
        self.assertEqual(tab.evaluate("document.activeElement.className"), "skip")
        reached, opened, chosen = set(), False, False
        for _ in range(60):
            tab.press("Tab")
            reached.add(tab.evaluate("document.activeElement.tagName"))
            if tab.evaluate("document.activeElement.tagName === 'SUMMARY' && document.activeElement.textContent === 'As a table'") and not opened:
                tab.press("Enter", text="\r")
                tab.wait("document.activeElement.parentElement.querySelectorAll('td').length > 0")
                opened = True
            if tab.evaluate("document.activeElement.id") == "drift-measure" and not chosen:
                tab.evaluate("window.before = document.querySelector('#drift-map svg').outerHTML")
                tab.press("ArrowDown")
                tab.wait("document.activeElement.id === 'drift-measure' && document.activeElement.selectedIndex === 1")
                tab.wait("(document.querySelector('#drift-map svg') ?? {outerHTML: before}).outerHTML !== before")  # drawn a frame later
                chosen = True
        self.assertTrue(opened and chosen)
        self.assertLessEqual({"A", "SUMMARY", "SELECT"}, reached)
        self.assertEqual(tab.errors, [])

    def test_study_on_a_phone(self):
        runs = [self.make_run(f"cell{i}", "finished", "study/runs") for i in range(3)]
        made_up.study(self.folder / "study", runs)
        self.isobit("report", "study", "--out", "page.html")
        tab = self.open("page.html", width=390, height=800)
        text = self.text(tab)
        for part in ("39 of 40 runs finished", "No verdict", "Runs still needed for a verdict: 212", "The folds were reused", "0.8512", "the loss of step 6 is not finite"):
            self.assertIn(part, text)
        self.assertLessEqual(tab.evaluate("document.documentElement.scrollWidth"), 390)
        self.assertEqual(tab.errors, [])
        self.check_access(tab, "on a phone")
        self.assertLessEqual(tab.evaluate("document.documentElement.scrollWidth"), 390)  # with every table open
        paper = base64.b64decode(tab.call("Page.printToPDF", printBackground=True)["data"])
        self.assertTrue(paper.startswith(b"%PDF-") and len(paper) > 20000)

    def test_hostile_texts_are_texts(self):
        first, second = self.make_run("first"), self.make_run("second")
        diff, drift = made_up.diff(first, second), made_up.drift(first, [second], layers=3, steps=3)
        for key in ("key", "a", "b"):
            diff["differences"][0][key] = HOSTILE
        diff["operator"].update(name=HOSTILE, module=HOSTILE)
        diff["first_step"].update(a=HOSTILE)
        diff["code_diff"] = f"+{HOSTILE}\n"
        diff["a"].update(id=HOSTILE)
        drift["layers"][0] = HOSTILE
        for cell in drift["cells"]:
            cell["layer"] = HOSTILE if cell["layer"] == "layer0.weight" else cell["layer"]
        made_up.write(self.folder / "diff.json", diff)
        made_up.write(self.folder / "drift.json", drift)
        self.isobit("report", first, second, "--title", HOSTILE, "--diff", "diff.json", "--drift", "drift.json", "--out", "page.html")
        study = made_up.study(self.folder / "study", [], name=HOSTILE)
        self.isobit("report", study, "--out", "study.html")
        for page in ("page.html", "study.html"):
            tab = self.open(page)
            tab.evaluate("document.querySelectorAll('details').forEach(element => { element.open = true; })")
            self.assertIn(HOSTILE, self.text(tab))
            self.assertIn(HOSTILE, tab.evaluate("document.title"))
            self.assertEqual(tab.evaluate("document.querySelectorAll('img').length"), 0)
            self.assertIsNone(tab.evaluate("window.hacked"))
            self.assertEqual(tab.errors, [])

    def test_many_runs_and_runs_that_go_wrong(self):
        for i in range(12):
            self.make_run(f"many{i}", ("finished", "interrupted", "failed")[i % 3])
        damaged = self.make_run("damaged")
        log = self.folder / "runs" / damaged / "metrics.jsonl"
        log.write_bytes(log.read_bytes()[:-3])
        self.isobit("report", *sorted(path.name for path in (self.folder / "runs").iterdir() if not path.name.startswith(".")), "--out", "page.html")
        tab = self.open("page.html")
        text = self.text(tab)
        for part in ("13 runs", "4 finished and sealed", "damaged", "interrupted", "the loss of step 6 is not finite"):
            self.assertIn(part, text)
        self.assertEqual(tab.errors, [])
        self.check_access(tab, "many")

    def test_of_very_many_runs_the_table_grows(self):
        runs = [self.make_run(f"run{i}") for i in range(1102)]
        self.isobit("report", *sorted(runs), "--out", "page.html")
        tab = self.open("page.html")
        rows = "document.querySelectorAll('#runs tbody tr[id^=run-]').length"
        self.assertEqual(tab.evaluate(rows), 500)
        self.assertIn("1,102 runs: 500 are shown", self.text(tab))
        # A link to a run that has no row yet makes it, where it belongs.
        tab.evaluate("location.hash = '#run-1000'")
        tab.wait("document.getElementById('run-1000') !== null")
        tab.evaluate("location.hash = '#run-700'")
        tab.wait("document.getElementById('run-700') !== null")
        order = "[...document.querySelectorAll('#runs tbody tr[id^=run-]')].map(row => Number(row.id.slice(4)))"
        self.assertEqual(tab.evaluate(order), [*range(1, 501), 700, 1000])
        self.assertIn(sorted(runs)[699], tab.evaluate("document.getElementById('run-700').textContent"))
        tab.evaluate("location.hash = '#run-99999'")  # no such run
        # The button asks for the next five hundred until none is missing.
        button = "[...document.querySelectorAll('#runs button')].find(b => b.textContent === 'Show 500 more runs')"
        for expected in (1002, 1102):
            self.assertFalse(tab.evaluate(f"{button}.hidden"))
            tab.evaluate(f"{button}.click()")
            self.assertEqual(tab.evaluate(rows), expected)
        self.assertEqual(tab.evaluate(order), list(range(1, 1103)))
        self.assertTrue(tab.evaluate(f"{button}.hidden"))
        self.assertEqual(tab.errors, [])


if __name__ == "__main__":
    if FOUND is None:
        print("Chromium is not installed: the pages are not looked at (scripts/setup --pages)", file=sys.stderr)
        sys.exit(1 if "pages" in os.environ.get("ISOBIT_REQUIRE", "").split() else 77)  # scripts/touched
    unittest.main()
