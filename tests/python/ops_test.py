"""`python -m isobit ops`: what `isobit ops` says, for users who have the package alone; and refusals name it."""
import json
import os
import re
import subprocess
import sys
import unittest

import torch
from programs import Programs

import isobit.__main__

PROGRAM = os.environ["ISOBIT_PROGRAM"]


class OpsTest(Programs):
    def call(self, *arguments, program=False):
        """(how it ended, its stdout, its stderr), of the package's command or the C++ program's."""
        if program:
            done = subprocess.run([PROGRAM, "ops", *arguments], capture_output=True, text=True, check=False)
            return done.returncode, done.stdout, done.stderr
        return self.fork(lambda: isobit.__main__.main(["ops", *arguments]), ["isobit"], {})

    def listed(self, *arguments, **command):
        status, out, told = self.call(*arguments, "--json", **command)
        self.assertEqual(status, 0, told)
        return json.loads(out)

    def test_the_package_says_what_the_program_says(self):
        package, program = (self.listed(program=program) for program in (False, True))
        self.assertEqual(package["contract"], isobit.contract_version)
        by_name = [{(entry["name"], entry["overload"]): entry for entry in one["operators"]} for one in (package, program)]
        self.assertGreater(len(by_name[1]), 3000)
        for name, entry in by_name[1].items():
            self.assertEqual(by_name[0].get(name), entry)
        for name in by_name[0].keys() - by_name[1].keys():  # registered by Python
            self.assertFalse(name[0].startswith("aten::"), name)
        self.assertEqual(sum(package["counts"].values()), len(package["operators"]))

    def test_a_word_gives_the_same_table(self):
        status, out, told = self.call("--search", "aten::special_")
        self.assertEqual(status, 0, told)
        self.assertEqual(out, self.call("--search", "aten::special_", program=True)[1])
        self.assertRegex(out, r"(?m)^certified  aten::special_erfcx  ")
        self.assertRegex(out, r"(?m)^refused    aten::special_bessel_j0  ")
        self.assertLess(out.index("\ncertified  aten::special_erfcx"), out.index("\nrefused  "))

    def test_one_class(self):
        found = self.listed("--search", "conv", "--class", "refused")["operators"]
        self.assertTrue(found)
        self.assertEqual({entry["class"] for entry in found}, {"refused"})
        self.assertEqual(self.call("--class", "refusd")[0], 2)

    def test_nothing_found(self):
        self.assertEqual(self.call("--search", "no such operator")[1],
                         f"0 operators under {isobit.contract_version}: 0 certified, 0 exact, 0 composite, 0 refused\n")
        self.assertEqual(self.listed("--search", "no such operator")["operators"], [])

    def test_help_has_an_example(self):
        self.assertIn("\n  python -m isobit ops --search conv\n", self.call("--help")[1])

    def test_a_closed_pipe_is_no_error(self):
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([sys.executable, "-m", "isobit", "ops"], stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
        os.close(writer)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_refusal_names_the_command_that_the_package_has(self):
        with isobit.enabled(), self.assertRaises(RuntimeError) as raised:
            torch.ops.aten._add_relu(torch.ones(2), torch.ones(2))
        named = re.search(r"\(python -m isobit (ops --search (\w+))\)", str(raised.exception))
        self.assertTrue(named, raised.exception)
        done = subprocess.run([sys.executable, "-m", "isobit", *named[1].split()], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^certified ")


if __name__ == "__main__":
    unittest.main()
