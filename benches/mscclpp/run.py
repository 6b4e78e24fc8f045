#!/usr/bin/env python3
"""Runs MSCCL++ plans beside NCCL with the harness's driver, and compares the times.

    run.py --driver build/driver --manifest plans/manifest.jsonl [--manifest own/manifest.jsonl]
           --nccl /path/libnccl.so.2 --out results [--gpus 1] [--rounds 5]

See README.md for the manifest, the results and what is measured. Python's standard library only.
"""

import argparse
import collections
import json
import math
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

COLLECTIVES = ["allgather", "reducescatter", "allreduce", "alltoall"]
NCCL = "nccl"


class Fault(Exception):
    """Something the user must put right."""


# ---- Manifest and jobs ----


def read_manifest(path):
    """One dictionary a line. Plan files are relative to the manifest."""
    entries = []
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.exists(path):
        raise Fault(f"there is no {path}")
    with open(path) as lines:
        for number, line in enumerate(lines, 1):
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            try:
                entry = json.loads(line)
                entry["collective"] = entry["collective"].lower().replace("-", "").replace("_", "")
                if entry["collective"] not in COLLECTIVES:
                    raise ValueError(f"collective {entry['collective']}")
                entry["ranks"] = int(entry["ranks"])
                sizes = entry["bytes"]
                entry["bytes"] = [int(b) for b in (sizes if isinstance(sizes, list) else [sizes])]
                if entry["file"] != NCCL:
                    entry["file"] = os.path.join(folder, entry["file"])
            except (KeyError, ValueError, TypeError, AttributeError) as e:
                raise Fault(f"{path}:{number}: {type(e).__name__}: {e}")
            entry.setdefault("id", os.path.splitext(os.path.basename(entry["file"]))[0])
            entry.setdefault("source", "nccl" if entry["file"] == NCCL else "motet")
            entry.setdefault("forms", ["out"])
            entry.setdefault("types", ["float"])
            entry.setdefault("do", "both")
            entries.append(entry)
    return entries


def plan_blocks(path, cache={}):
    """Thread blocks and threads per block of a plan; None where it cannot be read."""
    if path not in cache:
        try:
            with open(path) as file:
                plan = json.load(file)
            blocks = max(len(gpu["threadblocks"]) for gpu in plan["gpus"])
            cache[path] = (blocks, plan.get("num_threads_per_block", 1024))
        except (OSError, ValueError, KeyError):
            cache[path] = None
    return cache[path]


def make_jobs(entries, args):
    """Jobs by number of ranks, each a list of dictionaries in the order they will run; and results of jobs that
    are not run because their blocks would not all be resident."""
    groups = collections.OrderedDict()
    skipped = []
    ids = collections.Counter()
    for entry in entries:
        if args.ranks and entry["ranks"] not in args.ranks:
            continue
        if args.collectives and entry["collective"] not in args.collectives:
            continue
        for size in entry["bytes"]:
            if args.sizes and size not in args.sizes:
                continue
            for kind in entry["types"]:
                for form in entry["forms"]:
                    name = f"{entry['id']}:{entry['ranks']}:{size}:{kind}:{form}"
                    ids[name] += 1
                    if ids[name] > 1:
                        name += f":{ids[name]}"
                    job = {
                        "id": name.replace(" ", "_"),
                        "plan": entry["file"],
                        "coll": entry["collective"],
                        "ranks": entry["ranks"],
                        "bytes": size,
                        "type": kind,
                        "form": form,
                        "do": args.do or entry["do"],
                        "source": entry["source"],
                        "entry": entry["id"],
                        "risky": bool(entry.get("force")),
                    }
                    for key in ("iters", "limit", "packet", "name", "expect"):
                        if key in entry:
                            job[key] = entry[key]
                    if not fits(entry, args):
                        skipped.append(too_big(job))
                        continue
                    # Risky plans run last and on their own: a hang costs a restart.
                    label = "risky:" + job["id"] if job["risky"] else entry.get("group", "")
                    groups.setdefault((entry["ranks"], job["risky"], entry["collective"], size, kind, label), []).append(job)
    by_ranks = collections.OrderedDict()
    for key in sorted(groups, key=lambda k: (k[0], k[1], COLLECTIVES.index(k[2]), k[3], k[4], k[5])):
        ranks, risky, collective, size, kind, label = key
        jobs = groups[key]
        if args.nccl and not risky and not args.no_nccl and any(job["do"] != "check" for job in jobs):
            jobs = nccl_jobs(key, jobs) + jobs
        group = f"{collective}:{size}:{kind}:{label}"
        for job in jobs:
            job["group"] = group.replace(" ", "_")
        by_ranks.setdefault(ranks, []).extend(jobs)
    return by_ranks, skipped


def nccl_jobs(key, jobs):
    """NCCL beside the plans of a group, in the forms they have."""
    ranks, _, collective, size, kind, label = key
    forms = {job["form"] for job in jobs} | {"out"}
    if collective == "alltoall":
        forms = {"out"}  # NCCL has none in place
    return [
        {
            "id": f"nccl:{collective}:{ranks}:{size}:{kind}:{form}" + (f":{label}" if label else ""),
            "plan": NCCL,
            "coll": collective,
            "ranks": ranks,
            "bytes": size,
            "type": kind,
            "form": form,
            "do": "both",
            "source": "nccl",
            "entry": "nccl",
            "risky": False,
        }
        for form in sorted(forms, reverse=True)
    ]


def fits(entry, args):
    """All blocks of all ranks on a GPU must be resident at once, or the plan hangs."""
    if entry.get("force") or entry["file"] == NCCL:
        return True
    shape = plan_blocks(entry["file"])
    if not shape:
        return True  # the driver says what is wrong with it
    per_gpu = -(-entry["ranks"] // args.gpus)
    return shape[0] * shape[1] * per_gpu <= args.resident * 1024


def too_big(job):
    blocks, threads = plan_blocks(job["plan"])
    return {
        "id": job["id"],
        "status": "too-big",
        "collective": job["coll"],
        "ranks": job["ranks"],
        "bytes": job["bytes"],
        "type": job["type"],
        "form": job["form"],
        "blocks": blocks,
        "threads": threads,
        "source": job["source"],
        "entry": job["entry"],
        "text": "not run: its blocks would not all be resident",
    }


def job_line(job):
    keys = ["id", "plan", "coll", "bytes", "type", "form", "do", "group", "iters", "limit", "packet", "name"]
    return " ".join(f"{key}={job[key]}" for key in keys if key in job)


# ---- Running ----


class Mps:
    """NVIDIA's Multi-Process Service with folders of its own, so that ranks run side by side on one GPU."""

    def __init__(self):
        self.folder = None

    def environment(self):
        if not self.folder:
            return {}
        return {
            "CUDA_MPS_PIPE_DIRECTORY": os.path.join(self.folder, "pipe"),
            "CUDA_MPS_LOG_DIRECTORY": os.path.join(self.folder, "log"),
        }

    def start(self):
        if not shutil.which("nvidia-cuda-mps-control"):
            raise Fault("nvidia-cuda-mps-control is not there: ranks cannot share a GPU (--no-mps to try without)")
        self.folder = tempfile.mkdtemp(prefix="mps-")
        for name in ("pipe", "log"):
            os.mkdir(os.path.join(self.folder, name))
        subprocess.run(
            ["nvidia-cuda-mps-control", "-d"], env={**os.environ, **self.environment()}, check=True, timeout=30
        )

    def ask(self, words, seconds):
        """What the control daemon answers; None if it does not in time."""
        try:
            return subprocess.run(
                ["nvidia-cuda-mps-control"],
                input=words + "\n",
                env={**os.environ, **self.environment()},
                timeout=seconds,
                capture_output=True,
                text=True,
            ).stdout
        except subprocess.TimeoutExpired:
            return None

    def stop(self):
        if not self.folder:
            return
        servers = [int(word) for word in (self.ask("get_server_list", 5) or "").split() if word.isdigit()]
        self.ask("quit -t 2", 20)
        for server in servers:  # ours only; one that a stuck kernel holds up
            try:
                os.kill(server, signal.SIGKILL)
            except OSError:
                pass
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder = None


def nccl_environment(ranks, gpus):
    """NCCL refuses several ranks on one GPU unless told; with too many channels its blocks are not all resident."""
    if ranks <= gpus:
        return {}
    return {
        "NCCL_MULTI_RANK_GPU_ENABLE": "1",
        "NCCL_MAX_NCHANNELS": "16" if ranks <= 4 else "12",
    }


def read_results(path):
    results = collections.OrderedDict()
    if os.path.exists(path):
        with open(path) as lines:
            for line in lines:
                try:
                    result = json.loads(line)
                    results[result["id"]] = result
                except (ValueError, KeyError):
                    pass  # a line cut off by a kill
    return results


def run_jobs(ranks, jobs, args, mps, deadline):
    """Runs the driver until every job has a result, or it does not get any further. Returns results by id."""
    path = os.path.join(args.out, f"raw-{ranks}.jsonl")
    environment = {**nccl_environment(ranks, args.gpus), **os.environ, **mps.environment()}
    stuck = 0
    while True:
        done = read_results(path)
        left = [job for job in jobs if job["id"] not in done]
        if not left or stuck >= 3 or time.time() > deadline:
            break
        file = tempfile.NamedTemporaryFile("w", prefix="jobs-", suffix=".txt")
        file.writelines(job_line(job) + "\n" for job in left)
        file.flush()
        command = [args.driver, "--ranks", str(ranks), "--gpus", str(min(args.gpus, ranks)), "--jobs", file.name]
        command += ["--out", path, "--rounds", str(args.rounds), "--launches", str(args.launches)]
        command += ["--limit", str(args.limit), "--clock", args.clock]
        if args.nccl:
            command += ["--nccl", args.nccl]
        if args.verbose:
            command.append("--verbose")
        command += args.driver_option
        print(f"{ranks} ranks: {len(left)} jobs", flush=True)
        process = subprocess.Popen(command, env=environment, start_new_session=True)
        try:
            code = process.wait(timeout=max(1, deadline - time.time()))
        except subprocess.TimeoutExpired:
            print("the time is up", flush=True)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            break
        except KeyboardInterrupt:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        if code == 2:
            raise Fault("the driver refused the jobs")
        progress = len(read_results(path)) - len(done)
        stuck = 0 if progress else stuck + 1
        if code == 3 and mps.folder:
            mps.stop()
            mps.start()
            environment.update(mps.environment())
    results = read_results(path)
    meta = {job["id"]: job for job in jobs}
    for result in results.values():
        job = meta.get(result["id"], {})
        result["source"] = job.get("source", "?")
        result["entry"] = job.get("entry", result["id"])
        if "expect" in job:
            result["expect"] = job["expect"]
    missing = [job["id"] for job in jobs if job["id"] not in results]
    return results, missing


# ---- Comparing ----


def geometric_mean(values):
    values = [v for v in values if v > 0]
    return math.exp(sum(math.log(v) for v in values) / len(values)) if values else float("nan")


def ratio(of, to):
    """How many times faster `to` is than `of`: the median over rounds that ran side by side."""
    if len(of.get("rounds", [])) == len(to.get("rounds", [])) > 0:
        return statistics.median(a / b for a, b in zip(of["rounds"], to["rounds"]))
    return of["median_us"] / to["median_us"]


def compare(results):
    """One row per collective, ranks, size and type: the fastest of each source, and ratios to the fastest of ours."""
    points = collections.defaultdict(lambda: collections.defaultdict(list))
    for result in results:
        if result.get("status") == "ok" and result.get("median_us"):
            key = (result["collective"], result["ranks"], result["bytes"], result["type"])
            points[key][result["source"]].append(result)
    rows = []
    order = lambda k: (COLLECTIVES.index(k[0]), k[1], k[2], k[3])
    for key in sorted(points, key=order):
        best = {source: min(found, key=lambda r: r["median_us"]) for source, found in points[key].items()}
        row = {"collective": key[0], "ranks": key[1], "bytes": key[2], "type": key[3], "best": {}}
        for source, result in best.items():
            row["best"][source] = {
                "id": result["entry"],
                "form": result["form"],
                "us": result["median_us"],
                "p10": result["p10"],
                "p90": result["p90"],
            }
        if "motet" in best:
            for other in ("nccl", "mscclpp"):
                if other in best:
                    row["over_" + other] = round(ratio(best[other], best["motet"]), 4)
        rows.append(row)
    return rows


def size_name(size):
    for unit, shift in (("G", 30), ("M", 20), ("K", 10)):
        if size >= 1 << shift and size % (1 << shift) == 0:
            return f"{size >> shift}{unit}"
    return str(size)


def table(rows):
    lines = [
        f"{'collective':<14}{'ranks':>5} {'size':>6} {'type':<6}{'nccl':>10}{'mscclpp':>10}{'motet':>10}"
        f"{'/nccl':>7}{'/mscclpp':>9}{'p10-p90':>9}  plan (mscclpp's)"
    ]

    def time_of(row, source):
        return f"{row['best'][source]['us']:.2f}" if source in row["best"] else "-"

    def times(row, key):
        return f"{row[key]:.2f}x" if key in row else "-"

    for row in rows:
        ours = row["best"].get("motet")
        spread = f"{(ours['p90'] - ours['p10']) / ours['us'] * 100:.0f}%" if ours else "-"
        theirs = row["best"].get("mscclpp")
        names = (ours["id"] if ours else "-") + (f" ({theirs['id']})" if theirs else "")
        lines.append(
            f"{row['collective']:<14}{row['ranks']:>5} {size_name(row['bytes']):>6} {row['type']:<6}"
            f"{time_of(row, 'nccl'):>10}{time_of(row, 'mscclpp'):>10}{time_of(row, 'motet'):>10}"
            f"{times(row, 'over_nccl'):>7}{times(row, 'over_mscclpp'):>9}{spread:>9}  {names}"
        )
    return "\n".join(lines)


def summary(rows, results):
    lines = []
    for other, label in (("nccl", "NCCL"), ("mscclpp", "MSCCL++'s own best plan")):
        key = "over_" + other
        having = [row for row in rows if key in row]
        if not having:
            continue
        lines.append(f"against {label}, geometric mean over {len(having)} points: {geometric_mean([r[key] for r in having]):.3f}x")
        for collective in COLLECTIVES:
            some = [row for row in having if row["collective"] == collective]
            if some:
                worst = min(some, key=lambda r: r[key])
                lines.append(
                    f"  {collective:<14} {geometric_mean([r[key] for r in some]):.3f}x over {len(some)};"
                    f" least {worst[key]:.2f}x at {worst['ranks']} ranks, {size_name(worst['bytes'])}"
                )
        faster = sum(row[key] > 1 for row in having)
        slower = [row for row in having if row[key] < 1 / 1.05]
        lines.append(f"  faster at {faster} of {len(having)} points; more than 5% slower at {len(slower)}")
        for row in slower:
            lines.append(
                f"    {row['collective']} {row['ranks']} ranks {size_name(row['bytes'])} {row['type']}: {row[key]:.2f}x"
            )
    by_source = collections.defaultdict(collections.Counter)
    for result in results:
        by_source[result.get("source", "?")][result["status"]] += 1
    for source, counts in sorted(by_source.items()):
        lines.append(f"{source}: " + ", ".join(f"{n} {status}" for status, n in counts.most_common()))
    judged = [r for r in results if "expect" in r]
    if judged:
        odd = [r for r in judged if r["status"] not in ([r["expect"]] if isinstance(r["expect"], str) else r["expect"])]
        lines.append(f"as expected: {len(judged) - len(odd)} of {len(judged)}")
        for result in odd:
            lines.append(f"  {result['id']}: {result['status']}, but {result['expect']} was expected")
    bad = [r for r in results if r["status"] not in ("ok",)]
    for result in bad[:60]:
        text = " ".join(result.get("text", "").split())
        lines.append(f"  {result['status']:<8} {result['id']}: {text[:160]}")
    if len(bad) > 60:
        lines.append(f"  … and {len(bad) - 60} more")
    changed = [r["id"] for r in results if r.get("input_changed")]
    if changed:
        lines.append(f"out of place, but wrote into their input: {len(changed)}, {', '.join(changed[:8])}")
    return "\n".join(lines)


def keep_fastest(entries, results, source, count):
    """Of one source, only the plans that were among the `count` fastest at a point; sizes are cut to those points."""
    points = collections.defaultdict(list)
    for result in results:
        if result.get("source") == source and result.get("status") == "ok" and result.get("median_us"):
            points[(result["collective"], result["ranks"], result["bytes"])].append(result)
    kept = collections.defaultdict(set)
    for key, found in points.items():
        for result in sorted(found, key=lambda r: r["median_us"])[:count]:
            kept[(result["entry"], key[1])].add(key[2])
    chosen = []
    for entry in entries:
        if entry["source"] != source:
            chosen.append(entry)
            continue
        sizes = [b for b in entry["bytes"] if b in kept.get((entry["id"], entry["ranks"]), ())]
        if sizes:
            chosen.append({**entry, "bytes": sizes})
    return chosen


def describe_machine(path, ranks):
    """What ran where: kept beside the results."""
    facts = {"date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "cpus": os.cpu_count()}
    try:
        facts["gpus"] = subprocess.run(
            ["nvidia-smi", "--query-gpu=name,driver_version,memory.total,clocks.sm,clocks.mem", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=30,
        ).stdout.strip().split("\n")
    except (OSError, subprocess.TimeoutExpired):
        facts["gpus"] = []
    for count in ranks:  # what the driver saw
        seen = os.path.join(os.path.dirname(path), f"raw-{count}.jsonl.machine.json")
        if os.path.exists(seen):
            with open(seen) as file:
                facts["device"] = json.load(file)
            os.remove(seen)
    facts["environment"] = {k: v for k, v in os.environ.items() if k.startswith(("NCCL_", "MSCCLPP_", "CUDA_"))}
    with open(path, "w") as file:
        json.dump(facts, file, indent=1)
        file.write("\n")


def numbers(text):
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    values = []
    for word in text.split(","):
        word = word.strip()
        unit = units.get(word[-1:].upper(), 1)
        values.append(int(word[:-1] if unit > 1 else word) * unit)
    return values


def arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--driver", help="the driver's binary")
    parser.add_argument("--manifest", action="append", default=[], help="plans to run (again and again)")
    parser.add_argument("--out", required=True, help="folder for the results")
    parser.add_argument("--nccl", help="libnccl.so.2")
    parser.add_argument("--no-nccl", action="store_true", help="do not add NCCL to every group")
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--no-mps", action="store_true", help="do not start MPS even if ranks share a GPU")
    parser.add_argument("--resident", type=int, default=120, help="blocks of 1024 threads that fit a GPU")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--launches", type=int, default=31)
    parser.add_argument("--limit", type=float, default=10, help="seconds one step of a job may take")
    parser.add_argument("--clock", default="graph", choices=["graph", "launch"])
    parser.add_argument("--do", choices=["check", "time", "both"], help="instead of what the manifests say")
    parser.add_argument("--ranks", type=numbers, help="only these numbers of ranks, by commas")
    parser.add_argument("--sizes", type=numbers, help="only these sizes, by commas (K, M, G)")
    parser.add_argument("--collectives", type=lambda t: t.split(","), help="only these")
    parser.add_argument("--select", help="results.jsonl of an earlier run, for --keep")
    parser.add_argument("--keep", type=int, default=2, help="with --select: as many of MSCCL++'s own plans per point")
    parser.add_argument("--budget", type=float, default=1e9, help="stop after this many seconds")
    parser.add_argument("--table", action="store_true", help="run nothing: compare what --out holds")
    parser.add_argument("--jobs-only", action="store_true", help="run nothing: write the job files")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--driver-option", action="append", default=[], help="handed to the driver as it is")
    return parser.parse_args(argv)


def main(argv=None):
    args = arguments(argv)
    os.makedirs(args.out, exist_ok=True)
    joined = os.path.join(args.out, "results.jsonl")
    results, missing = [], []
    if args.table:
        results = list(read_results(joined).values())
    else:
        entries = [entry for path in args.manifest for entry in read_manifest(path)]
        if not entries:
            raise Fault("no plans: give --manifest")
        if args.select:
            entries = keep_fastest(entries, list(read_results(args.select).values()), "mscclpp", args.keep)
        by_ranks, results = make_jobs(entries, args)
        if args.jobs_only:
            for ranks, jobs in by_ranks.items():
                with open(os.path.join(args.out, f"jobs-{ranks}.txt"), "w") as file:
                    file.writelines(job_line(job) + "\n" for job in jobs)
                print(f"{ranks} ranks: {len(jobs)} jobs")
            return 0
        if not args.driver:
            raise Fault("give --driver")
        args.driver = os.path.abspath(args.driver)
        deadline = time.time() + args.budget
        mps = Mps()
        try:
            if not args.no_mps and any(ranks > args.gpus for ranks in by_ranks):
                mps.start()
            for ranks, jobs in by_ranks.items():
                found, absent = run_jobs(ranks, jobs, args, mps, deadline)
                results += found.values()
                missing += absent
        finally:
            mps.stop()
            describe_machine(os.path.join(args.out, "machine.json"), by_ranks)
        with open(joined, "w") as file:
            file.writelines(json.dumps(result) + "\n" for result in results)
    rows = compare(results)
    text = table(rows) + "\n\n" + summary(rows, results)
    if missing:
        text += f"\nno result: {len(missing)} jobs, {', '.join(missing[:5])}"
    print(text)
    with open(os.path.join(args.out, "table.txt"), "w") as file:
        file.write(text + "\n")
    with open(os.path.join(args.out, "rows.json"), "w") as file:
        json.dump(rows, file, indent=1)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Fault as fault:
        print(f"run.py: {fault}", file=sys.stderr)
        sys.exit(2)
