#!/usr/bin/env python3
"""Tests of the harness that need no GPU: python3 test_harness.py"""

import csv
import os
import subprocess
import sys
import tempfile
import unittest

import control
import rank
import wrong_plans

HERE = os.path.dirname(os.path.abspath(__file__))


class Expected(unittest.TestCase):
    def test_what_ranks_send_adds_up_to_what_is_expected(self):
        ranks, elements = 3, 3 * 700
        parts = [memoryview(rank.pattern(elements, it)).cast("i") for it in range(ranks)]
        total = [sum(values) for values in zip(*parts)]
        whole = memoryview(rank.expected("allreduce", 1, ranks, 4 * elements)).cast("i")
        self.assertEqual(list(whole), total)
        self.assertEqual(bytes(whole), rank.expected("reduce", 0, ranks, 4 * elements))
        self.assertIsNone(rank.expected("reduce", 1, ranks, 4 * elements))
        for it in range(ranks):
            part = memoryview(rank.expected("reducescatter", it, ranks, 4 * elements)).cast("i")
            self.assertEqual(list(part), total[700 * it : 700 * (it + 1)])
        gathered = memoryview(rank.expected("allgather", 0, ranks, 4 * elements)).cast("i")
        self.assertEqual(list(gathered[700:1400]), list(parts[1][:700]))
        self.assertEqual(rank.expected("broadcast", 2, ranks, 4 * elements), bytes(parts[0]))


class ControlFile(unittest.TestCase):
    def test_settings_are_packed_as_the_plugin_reads_them(self):
        with tempfile.TemporaryDirectory() as folder:
            shared = control.Control(os.path.join(folder, "control"))
            shared.force("allreduce", "ring/simple/2")
            self.assertEqual(shared.word("allreduce") & (1 << 51) - 1, 1 | 2 << 1 | 3 << 5 | 2 << 8)
            shared.force("allreduce", "default")
            self.assertEqual(shared.word("allreduce") & (1 << 51) - 1, 1)
            shared.force("allreduce", "plan")
            self.assertEqual(shared.word("allreduce") & 1, 0)
            self.assertEqual(shared.words[1], 3)


class WrongPlans(unittest.TestCase):
    def test_checksums_are_the_plugins(self):
        # The check value of CRC-64/XZ.
        self.assertEqual(wrong_plans.checksum(b"123456789"), "995dc9bbdf1939fa")

    def test_content_is_spoilt_and_checksums_fit_again(self):
        with tempfile.TemporaryDirectory() as folder:
            body = "motet-table 1\nentry x allreduce 2 10\nnccl time=7 algorithm=ring protocol=ll\n"
            wrong_plans.put(folder, "table", wrong_plans.table([body]))
            wrong_plans.put(folder, "plan.json", b'{"motet_plan": 2, "ranks": 2, "nodes": 1}')
            wrong_plans.put(folder, "checksums", b"0 network.toml\n0 plan.json\n0 table\n0 checksums\n")
            wrong_plans.KINDS["switches that are not there"](folder)
            wrong_plans.KINDS["for more ranks"](folder)
            table = wrong_plans.read(folder, "table").decode()
            self.assertIn("nccl time=7 algorithm=nvls protocol=simple channels=16\n", table)
            lines = table.splitlines(keepends=True)
            self.assertEqual(lines[-1], f"checksum {wrong_plans.checksum(''.join(lines[:-1]).encode())}\n")
            self.assertIn(b'"ranks": 3', wrong_plans.read(folder, "plan.json"))
            listed = wrong_plans.read(folder, "checksums").decode()
            self.assertIn(f"{wrong_plans.checksum(table.encode())} table\n", listed)
            self.assertIn("0 network.toml\n", listed)


class DryRun(unittest.TestCase):
    def test_modes_take_turns_and_the_slowest_rank_counts(self):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "out")
            command = [sys.executable, os.path.join(HERE, "run.py"), "--nccl", "dry", "--plugin", "none", "--plan", "x"]
            command += ["--ranks", "3", "--rounds", "2", "--collectives", "allreduce", "--sizes", "1K,4M", "--out", out]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(os.path.join(out, "times.csv"), newline="") as file:
                rows = list(csv.DictReader(file))
            self.assertEqual([it["mode"] for it in rows[:3]], ["default", "plan", "default again"])
            self.assertEqual({(it["mode"], it["us"]) for it in rows}, {("default", "2.002"), ("plan", "1.002"), ("default again", "2.002")})
            self.assertIn("geometric mean 1.998", done.stdout)

    def test_the_best_of_all_settings_is_looked_at_again(self):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "out")
            command = [sys.executable, os.path.join(HERE, "exhaustive.py"), "--nccl", "dry", "--plugin", "none", "--plan", "x"]
            command += ["--ranks", "2", "--rounds", "2", "--collectives", "allgather", "--sizes", "1K", "--out", out]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(os.path.join(out, "search.csv"), newline="") as file:
                self.assertEqual(len(list(csv.DictReader(file))), 3 * (1 + 7 * 3 * 6))
            with open(os.path.join(out, "times.csv"), newline="") as file:
                self.assertEqual(len(list(csv.DictReader(file))), 2 * 4)
            self.assertIn("allgather, up to 1 MiB: best 1.000", done.stdout)
            self.assertIn("plan 1.999", done.stdout)


class Live(unittest.TestCase):
    def test_sides_take_turns_while_loads_come_and_go(self):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "out")
            command = [sys.executable, os.path.join(HERE, "live.py"), "--nccl", "dry", "--plugin", "none-such.so", "--plan", "x"]
            command += ["--ranks", "3", "--sizes", "4K,1M", "--phase", "0.3", "--cycles", "1", "--out", out]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(os.path.join(out, "live.csv"), newline="") as file:
                rows = list(csv.DictReader(file))
            self.assertEqual(list(dict.fromkeys(it["load"] for it in rows)), ["none", "job", "streams", "busy"])
            self.assertEqual(list(dict.fromkeys(it["side"] for it in rows)), ["nccl", "plan", "agent", "nccl again"])
            # Another is first in the second round.
            self.assertEqual(next(it["side"] for it in rows if it["round"] == "1"), "plan")
            with open(os.path.join(out, "phases.csv"), newline="") as file:
                phases = list(csv.DictReader(file))
            self.assertEqual(len(phases), 7 * 2 * 3)
            found = {(it["load"] != "none", it["side"]): float(it["ratio"]) for it in phases}
            expected = {(False, "plan"): 2.0, (True, "plan"): 0.75, (False, "agent"): 2.0, (True, "agent"): 1.5}
            for key, ratio in expected.items():
                self.assertAlmostEqual(found[key], ratio, delta=0.01)
            self.assertEqual(found[True, "nccl again"], 1.0)


if __name__ == "__main__":
    unittest.main()
