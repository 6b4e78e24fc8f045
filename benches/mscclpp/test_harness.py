#!/usr/bin/env python3
"""Tests that need no GPU: python3 test_harness.py

With HARNESS_DRIVER=build/driver, the driver's job file, watchdog and restarts are tested in dry runs too.
"""

import json
import os
import subprocess
import tempfile
import unittest

import run


def entry(name, source="motet", **more):
    return {
        "id": name,
        "file": more.pop("file", name + ".json"),
        "source": source,
        "collective": "allreduce",
        "ranks": 4,
        "bytes": [1024, 4096],
        "forms": ["out"],
        "types": ["float"],
        "do": "both",
    } | more


def result(name, source, size, rounds, status="ok", **more):
    return {
        "id": f"{name}:{size}",
        "entry": name,
        "source": source,
        "status": status,
        "collective": "allreduce",
        "ranks": 4,
        "bytes": size,
        "type": "float",
        "form": "out",
        "median_us": sorted(rounds)[len(rounds) // 2],
        "p10": min(rounds),
        "p90": max(rounds),
        "rounds": rounds,
    } | more


def options(*words):
    return run.arguments(["--out", "unused", *words])


class Manifest(unittest.TestCase):
    def read(self, *lines):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "manifest.jsonl")
            with open(path, "w") as file:
                file.writelines(line + "\n" for line in lines)
            return folder, run.read_manifest(path)

    def test_defaults(self):
        folder, entries = self.read(
            "# a note", "", '{"file":"a/b.json","collective":"All-Reduce","ranks":8,"bytes":1024}'
        )
        (only,) = entries
        self.assertEqual(only["file"], os.path.join(folder, "a/b.json"))
        self.assertEqual(only["collective"], "allreduce")
        self.assertEqual((only["id"], only["source"], only["bytes"]), ("b", "motet", [1024]))
        self.assertEqual((only["forms"], only["types"], only["do"]), (["out"], ["float"], "both"))

    def test_faults_name_the_line(self):
        for line in ('{"file":"a"', '{"file":"a","ranks":2,"bytes":1}', '{"file":"a","collective":"scan","ranks":2,"bytes":1}'):
            with self.assertRaisesRegex(run.Fault, ":1: "):
                self.read(line)
        with self.assertRaisesRegex(run.Fault, "there is no"):
            run.read_manifest("/nonexistent/manifest")


class Jobs(unittest.TestCase):
    def test_groups_hold_one_point_and_nccl_goes_first(self):
        by_ranks, skipped = run.make_jobs([entry("a"), entry("b", forms=["in", "out"])], options("--nccl", "x"))
        jobs = by_ranks[4]
        self.assertEqual(skipped, [])
        self.assertEqual(len(jobs), 2 * (2 + 1 + 2))
        first = [j for j in jobs if j["bytes"] == 1024]
        self.assertEqual({j["group"] for j in first}, {"allreduce:1024:float:"})
        self.assertEqual([j["source"] for j in first], ["nccl", "nccl", "motet", "motet", "motet"])
        self.assertEqual({j["form"] for j in first[:2]}, {"in", "out"})
        self.assertEqual(len({j["id"] for j in jobs}), len(jobs))

    def test_alltoall_of_nccl_is_out_of_place(self):
        by_ranks, _ = run.make_jobs([entry("a", collective="alltoall", forms=["in"])], options("--nccl", "x"))
        self.assertEqual([j["form"] for j in by_ranks[4] if j["source"] == "nccl"], ["out", "out"])

    def test_no_nccl_for_checks(self):
        by_ranks, _ = run.make_jobs([entry("a", do="check")], options("--nccl", "x"))
        self.assertEqual({j["source"] for j in by_ranks[4]}, {"motet"})

    def test_risky_plans_run_last_and_alone(self):
        entries = [entry("risky", force=True, bytes=[1024]), entry("a")]
        by_ranks, _ = run.make_jobs(entries, options("--nccl", "x"))
        self.assertEqual(by_ranks[4][-1]["entry"], "risky")
        self.assertEqual([j["entry"] for j in by_ranks[4]].count("risky"), 1)
        self.assertEqual(sum(j["group"] == by_ranks[4][-1]["group"] for j in by_ranks[4]), 1)

    def test_plans_that_do_not_fit_are_not_run(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "p.json")
            with open(path, "w") as file:
                json.dump({"gpus": [{"threadblocks": [{}] * 31}] * 4, "num_threads_per_block": 1024}, file)
            big = entry("big", file=path, bytes=[1024])
            by_ranks, skipped = run.make_jobs([big], options())
            self.assertEqual((dict(by_ranks), [s["status"] for s in skipped]), ({}, ["too-big"]))
            by_ranks, skipped = run.make_jobs([big], options("--gpus", "4"))
            self.assertEqual((len(by_ranks[4]), skipped), (1, []))
            by_ranks, skipped = run.make_jobs([big | {"force": True}], options())
            self.assertEqual((len(by_ranks[4]), skipped), (1, []))

    def test_filters_and_line(self):
        by_ranks, _ = run.make_jobs([entry("a", iters=8, packet="ll8")], options("--sizes", "4K", "--do", "check"))
        (job,) = by_ranks[4]
        self.assertEqual(
            run.job_line(job),
            "id=a:4:4096:float:out plan=a.json coll=allreduce bytes=4096 type=float form=out do=check"
            " group=allreduce:4096:float: iters=8 packet=ll8",
        )
        self.assertEqual(run.make_jobs([entry("a")], options("--ranks", "2"))[0], {})

    def test_environment(self):
        self.assertEqual(run.nccl_environment(8, 8), {})
        self.assertEqual(run.nccl_environment(4, 1)["NCCL_MAX_NCHANNELS"], "16")
        self.assertEqual(run.nccl_environment(8, 1)["NCCL_MAX_NCHANNELS"], "12")


class Comparison(unittest.TestCase):
    results = [
        result("nccl", "nccl", 1024, [20.0, 22.0, 40.0]),
        result("own-a", "mscclpp", 1024, [9.0, 10.0, 11.0]),
        result("own-b", "mscclpp", 1024, [12.0, 12.0, 12.0]),
        result("ours", "motet", 1024, [10.0, 11.0, 20.0]),
        result("slow", "motet", 1024, [30.0, 30.0, 30.0]),
        result("broken", "motet", 1024, [1.0, 1.0, 1.0], status="wrong", text="element 7"),
        result("nccl", "nccl", 4096, [30.0, 30.0, 30.0]),
        result("ours", "motet", 4096, [60.0, 60.0, 60.0], input_changed=True),
    ]

    def test_rows(self):
        rows = run.compare(self.results)
        self.assertEqual([r["bytes"] for r in rows], [1024, 4096])
        self.assertEqual(rows[0]["best"]["motet"]["id"], "ours")
        self.assertEqual(rows[0]["best"]["mscclpp"]["id"], "own-a")
        self.assertAlmostEqual(rows[0]["over_nccl"], 2.0)  # by rounds: 2, 2, 2
        self.assertAlmostEqual(rows[0]["over_mscclpp"], 0.9, places=3)
        self.assertAlmostEqual(rows[1]["over_nccl"], 0.5)
        self.assertNotIn("over_mscclpp", rows[1])

    def test_text(self):
        rows = run.compare(self.results)
        self.assertIn("2.00x", run.table(rows))
        text = run.summary(rows, self.results)
        self.assertIn("geometric mean over 2 points: 1.000x", text)
        self.assertIn("faster at 1 of 2 points; more than 5% slower at 1", text)
        self.assertIn("wrong    broken:1024: element 7", text)
        self.assertIn("wrote into their input: 1", text)

    def test_expectations(self):
        found = [r | {"expect": "wrong"} for r in self.results[3:6]]
        text = run.summary([], found)
        self.assertIn("as expected: 1 of 3", text)

    def test_keep_fastest(self):
        entries = [entry("own-a", "mscclpp"), entry("own-b", "mscclpp"), entry("ours")]
        kept = run.keep_fastest(entries, self.results, "mscclpp", 1)
        self.assertEqual([(e["id"], e["bytes"]) for e in kept], [("own-a", [1024]), ("ours", [1024, 4096])])

    def test_cut_line_is_left_out(self):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write('{"id":"a","status":"ok"}\n{"id":"b","sta')
            file.flush()
            self.assertEqual(list(run.read_results(file.name)), ["a"])


@unittest.skipUnless(os.environ.get("HARNESS_DRIVER"), "HARNESS_DRIVER is not set")
class Driver(unittest.TestCase):
    def dry(self, lines, *more):
        with tempfile.TemporaryDirectory() as folder:
            jobs, out = os.path.join(folder, "jobs"), os.path.join(folder, "out")
            with open(jobs, "w") as file:
                file.write("\n".join(lines))
            command = [os.environ["HARNESS_DRIVER"], "--ranks", "3", "--jobs", jobs, "--out", out, "--dry", *more]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120)
            found = run.read_results(out)
            return done, {name: r["status"] for name, r in found.items()}, found

    def test_a_fault_ends_its_job_only(self):
        kinds = {"ok": "ok", "hang": "hang", "hang1": "hang", "crash": "crash", "throw": "crash"}
        kinds |= {"refuse": "refused", "refuse1": "refused", "wrong": "wrong"}
        lines = []
        for i, kind in enumerate(kinds):
            lines.append(f"id={kind} plan=dry:{kind} coll=allgather bytes=1024 limit=1 group=g{i // 3}")
        lines.append("id=last plan=dry:ok coll=allreduce bytes=8589934592 type=bf16 form=in iters=6")
        done, status, found = self.dry(lines, "--rounds", "3", "--launches", "5")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(status, kinds | {"last": "ok"})
        self.assertEqual(len(found["last"]["rounds"]), 3)
        self.assertEqual(found["last"]["calls"], 6)
        self.assertEqual(found["wrong"]["first_wrong"]["element"], 7)
        self.assertEqual(found["refuse"]["refused_by"], 3)
        self.assertIn("pretended CUDA failure", found["throw"]["text"])

    def test_plans_that_cannot_be_used_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            def plan(name, text):
                path = os.path.join(folder, name)
                with open(path, "w") as file:
                    file.write(text)
                return path

            good = {"name": "n", "collective": "allreduce", "inplace": True, "protocol": "Simple", "gpus": []}
            gpu = {"input_chunks": 3, "output_chunks": 3, "threadblocks": [{}, {}]}
            good["gpus"] = [gpu] * 3
            lines = [
                f"id=good plan={plan('a', json.dumps(good))} coll=allreduce bytes=1024",
                f"id=broken plan={plan('b', '{')} coll=allreduce bytes=1024",
                f"id=ranks plan={plan('c', json.dumps(good | {'gpus': [gpu]}))} coll=allreduce bytes=1024",
                f"id=other plan={plan('d', json.dumps(good))} coll=allgather bytes=1024",
                "id=none plan=/nonexistent coll=allreduce bytes=1024",
            ]
            done, status, found = self.dry(lines)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(status, {"good": "ok", "broken": "refused", "ranks": "refused", "other": "refused", "none": "refused"})
        self.assertIn("for 1 ranks, not 3", found["ranks"]["text"])
        self.assertEqual((found["good"]["blocks"], found["good"]["threads"]), (2, 1024))

    def test_job_files_with_faults(self):
        for line, text in (
            ("id=a plan=dry:ok coll=allgather", "no bytes"),
            ("id=a plan=dry:ok coll=scan bytes=1", "coll cannot be 'scan'"),
            ("id=a plan=dry:ok coll=allgather bytes=16 iters=5", "iters must be even"),
            ("id=a plan=dry:ok coll=allgather bytes=16 colour=red", "unknown key colour"),
            ("id=a plan=dry:ok coll=allgather bytes=-16", "bytes cannot be '-16'"),
        ):
            done, _, _ = self.dry([line])
            self.assertEqual(done.returncode, 2)
            self.assertIn(":1: " + text, done.stderr)
        twice = ["id=a plan=dry:ok coll=allgather bytes=16"] * 2
        self.assertIn("is there twice", self.dry(twice)[0].stderr)
        mixed = [f"id={i} plan=dry:ok coll=allgather bytes={16 * (i + 1)} group=g" for i in range(2)]
        self.assertIn("one collective, size and type", self.dry(mixed)[0].stderr)


if __name__ == "__main__":
    unittest.main()
