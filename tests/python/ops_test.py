"""`python -m isobit ops`: what `isobit ops` says, for users who have the package alone; and refusals name it."""
import json
import os
import re
import subprocess
import sys
import unittest

import torch

import isobit

PROGRAM = os.environ["ISOBIT_PROGRAM"]


def call(*arguments, command=(sys.executable, "-m", "isobit", "ops")):
    return subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)


def listed(*arguments, **command):
    done = call(*arguments, "--json", **command)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


class OpsTest(unittest.TestCase):
    def test_the_package_says_what_the_program_says(self):
        package, program = (listed(**command) for command in ({}, {"command": (PROGRAM, "ops")}))
        self.assertEqual(package["contract"], isobit.contract_version)
        by_name = [{(entry["name"], entry["overload"]): entry for entry in one["operators"]} for one in (package, program)]
        self.assertGreater(len(by_name[1]), 3000)
        for name, entry in by_name[1].items():
            self.assertEqual(by_name[0].get(name), entry)
        for name in by_name[0].keys() - by_name[1].keys():  # registered by Python
            self.assertFalse(name[0].startswith("aten::"), name)
        self.assertEqual(sum(package["counts"].values()), len(package["operators"]))

    def test_a_word_gives_the_same_table(self):
        done = call("--search", "aten::erf")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, call("--search", "aten::erf", command=(PROGRAM, "ops")).stdout)
        self.assertRegex(done.stdout, r"(?m)^certified  aten::erf  ")
        self.assertRegex(done.stdout, r"(?m)^refused    aten::erfinv  ")
        self.assertLess(done.stdout.index("\ncertified  aten::erfc"), done.stdout.index("\nrefused  "))

    def test_one_class(self):
        found = listed("--search", "conv", "--class", "refused")["operators"]
        self.assertTrue(found)
        self.assertEqual({entry["class"] for entry in found}, {"refused"})
        self.assertEqual(call("--class", "refusd").returncode, 2)

    def test_nothing_found(self):
        self.assertEqual(call("--search", "no such operator").stdout,
                         f"0 operators under {isobit.contract_version}: 0 certified, 0 exact, 0 composite, 0 refused\n")
        self.assertEqual(listed("--search", "no such operator")["operators"], [])

    def test_help_has_an_example(self):
        self.assertIn("\n  python -m isobit ops --search conv\n", call("--help").stdout)

    def test_a_closed_pipe_is_no_error(self):
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([sys.executable, "-m", "isobit", "ops"], stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
        os.close(writer)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_refusal_names_the_command_that_the_package_has(self):
        with isobit.enabled(), self.assertRaises(RuntimeError) as raised:
            torch.erfinv(torch.ones(2))
        named = re.search(r"\(python -m isobit (ops --search (\w+))\)", str(raised.exception))
        self.assertTrue(named, raised.exception)
        done = subprocess.run([sys.executable, "-m", "isobit", *named[1].split()], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^certified ")


if __name__ == "__main__":
    unittest.main()
