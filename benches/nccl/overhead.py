#!/usr/bin/env python3
"""What the plugins cost, on NCCL's own settings.

    overhead.py --nccl … --plugin … --rig sockets --ranks 4 --out results [--sessions 0] [other options of run.py]

The profiler can be paused (through the control file), so both sides take turns on one communicator: paused, profiling,
paused again. The ratio of the last two to the first is what profiling costs, and what is noise. A measurement has enough
calls in a row for four that are profiled (MOTET_PROFILE_EVERY, 256 if not set), or some would have one and others none.

With --sessions N, N sessions each without plugins, with the tuner, and with both, in turns: a plugin is loaded when a
communicator is made. Communicators of one machine differ by some percent among themselves, so this sees only what is large.

Writes OUT/times.csv, and OUT/overhead.csv for sessions."""

import argparse
import csv
import os
import statistics
import subprocess
import sys

import run

HERE = os.path.dirname(os.path.abspath(__file__))
SIDES = ["none", "tuner", "both"]


def measure(args, ranks, shared, writers):
    """Rounds of (paused, profiling, paused again), by point."""
    found = {}
    least = 4 * int(os.environ["MOTET_PROFILE_EVERY"])
    for collective in args.collectives:
        for size in args.sizes:
            calls = max(run.calls_of(size), least)
            step = {"collective": collective, "bytes": size, "calls": calls, "mode": "default"}
            shared.force(collective, "default")
            for round_ in range(args.rounds):
                times = []
                # The order changes: the first after a pause of the driver's is often slower.
                turns = [True, False, True] if round_ % 2 else [True, True, False]
                for paused in turns:
                    shared.pause_profiling(paused)
                    times.append(max(it["us"] for it in ranks.ask({"do": "time", **step})))
                paused, again = [time for time, it in zip(times, turns) if it]
                profiling = times[turns.index(False)]
                found.setdefault((collective, size), []).append((paused, profiling, again))
                for name, time in zip(("paused", "profiling", "paused again"), found[collective, size][-1]):
                    writers[0].writerow([args.rig, args.ranks, collective, size, name, round_, f"{time:.3f}"])
            shared.pause_profiling(False)
    return found


def report(found):
    for (collective, size), rounds in found.items():
        base = [(first + again) / 2 for first, _, again in rounds]
        cost = statistics.median(it[1] / own for it, own in zip(rounds, base))
        noise = statistics.median(again / first for first, _, again in rounds)
        print(f"{collective:14}{size:11} {statistics.median(base):12.1f} us  profiling {cost:7.4f}  paused again {noise:7.4f}")


def sessions(args, rest):
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--sessions", type=int, default=0)
    args, rest = parser.parse_known_args()
    if args.sessions > 0:
        return sessions(args, rest)
    # As the plugin has it.
    os.environ.setdefault("MOTET_PROFILE_EVERY", "256")
    sys.argv[1:] = ["--out", args.out, "--load", "both", "--modes", "default", *rest]
    return run.session(run.options(), measure, report, ["times.csv"])


if __name__ == "__main__":
    sys.exit(main())
