#!/usr/bin/env python3
"""What the plugins cost: sessions of `run.py` without them, with the tuner, and with tuner and profiler, in turns, on
NCCL's own settings. A plugin is loaded when a communicator is made, so sides cannot take turns within a session.

    overhead.py --nccl … --plugin … --rig sockets --ranks 4 --out results [--sessions 5] [other options of run.py]

Prints the median of each side and its ratio to the median without plugins, and writes OUT/overhead.csv.
"""

import argparse
import csv
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SIDES = ["none", "tuner", "both"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--sessions", type=int, default=5)
    args, rest = parser.parse_known_args()
    times = {}
    for session in range(args.sessions):
        for side in SIDES:
            out = os.path.join(args.out, f"{session}-{side}")
            command = [sys.executable, os.path.join(HERE, "run.py"), "--load", side, "--modes", "default", "--again", ""]
            done = subprocess.run([*command, "--out", out, *rest], stdout=subprocess.DEVNULL, check=False)
            if done.returncode != 0:
                return done.returncode
            with open(os.path.join(out, "times.csv"), newline="") as file:
                for row in csv.DictReader(file):
                    key = (row["collective"], int(row["bytes"]))
                    times.setdefault(key, {it: [] for it in SIDES})[side].append(float(row["us"]))
    with open(os.path.join(args.out, "overhead.csv"), "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["collective", "bytes", *SIDES])
        for (collective, size), sides in times.items():
            medians = [statistics.median(sides[it]) for it in SIDES]
            writer.writerow([collective, size, *(f"{it:.3f}" for it in medians)])
            ratios = "".join(f"  {side} {it:.1f} ({it / medians[0]:.4f})" for side, it in zip(SIDES, medians))
            print(f"{collective:14}{size:11}{ratios}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
