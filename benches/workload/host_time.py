#!/usr/bin/env python3
"""What the host takes, and how far it is ahead of the GPU, from Kineto traces of one job.

    python3 host_time.py traces

prints, of all ranks together: what each sort of call of communication takes on the host (PyTorch's own part of it, and FSDP's
with its copies), how long kernels waited after their launch (the host's lead), and between AllReduces that follow one
another, as at the end of a step, the time from one kernel's end to the next one's start and from one launch to the
next. All of it with the profiler on, which slows the host down.
"""

import argparse
import json
import os
import re
import statistics

CALLS = re.compile(r"^(c10d::|fsdp::|FSDP::(all_gather|post_backward_reduce)\b|Optimizer\.step)")


def spread(values):
    """Least, median and most, in ms."""
    values = sorted(values)
    return f"{values[0] / 1e3:9.3f} {statistics.median(values) / 1e3:9.3f} {values[-1] / 1e3:9.3f}"


def read(file):
    with open(file) as text:
        return [it for it in json.load(text)["traceEvents"] if it.get("ph") == "X"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="traces of all ranks")
    folder = parser.parse_args().folder
    calls, leads, between, apart = {}, {}, {}, {}
    for name in sorted(os.listdir(folder)):
        events = read(os.path.join(folder, name))
        launches = {}
        for it in events:
            if it.get("cat") in ("cuda_runtime", "cuda_driver") and "correlation" in it.get("args", {}):
                launches[it["args"]["correlation"]] = it["ts"]
            # Modules' names stand behind those of FSDP's parts.
            what = it["name"].split(" (")[0]
            if it.get("cat") in ("cpu_op", "user_annotation") and CALLS.match(what):
                calls.setdefault(what, []).append(it["dur"])
        kernels = [it for it in events if it.get("cat") == "kernel"]
        for it in kernels:
            launched = launches.get(it["args"].get("correlation"))
            if launched is not None:
                sort = "communication" if it["name"].startswith("nccl") else "compute"
                leads.setdefault(sort, []).append(it["ts"] - launched)
        sums = [it for it in kernels if "AllReduce" in it["name"]]
        sums.sort(key=lambda it: it["ts"])
        for one, next_one in zip(sums, sums[1:]):
            groups = [it["args"].get("Process Group Description", "?") for it in (one, next_one)]
            gap = next_one["ts"] - one["ts"] - one["dur"]
            between.setdefault(" to ".join(groups), []).append(gap)
            launched = [launches.get(it["args"].get("correlation")) for it in (one, next_one)]
            if None not in launched:
                apart.setdefault(" to ".join(groups), []).append(launched[1] - launched[0])
    for title, found in [
        ("host, per call", calls),
        ("from a kernel's launch to its start", leads),
        ("from one AllReduce's end to the next one's start, by group", between),
        ("from one AllReduce's launch to the next one's, by group", apart),
    ]:
        if found:
            print(f"{title}, ms{'':{max(0, 58 - len(title))}}  count     least    median      most")
            for what, values in sorted(found.items()):
                print(f"  {what:58} {len(values):6} {spread(values)}")


if __name__ == "__main__":
    main()
