#!/usr/bin/env python3
"""What a perfect choice for every call would gain, and how much of that a plan gets.

    exhaustive.py --nccl /path/libnccl.so.2 --plugin /path/libmotet_nccl.so --plan plan --rig sockets --ranks 4 --out results

First every algorithm with every protocol and every number of channels is timed in turns, a few rounds each. Then the best of
each point, the plan's choice and NCCL's own (twice, to show the noise) are timed again in turns, many rounds: the best of many is
partly luck, and only a second look says by how much. Takes the options of run.py; writes OUT/search.csv, OUT/times.csv
and OUT/about.json."""

import csv
import math
import statistics
import sys

import control
import run

CHANNELS = ["", "/1", "/2", "/4", "/8", "/16"]
SEARCH_ROUNDS = 3


def candidates():
    pairs = [f"{algorithm}/{protocol}" for algorithm in control.ALGORITHMS for protocol in control.PROTOCOLS]
    return pairs, CHANNELS


def offered(ranks, shared, step, mode):
    """Whether NCCL offers a setting here; ranks that give wrong results end everything."""
    shared.force(step["collective"], mode)
    if not all(it["right"] for it in ranks.ask({"do": "check", **step})):
        raise run.Fault(f"{step}: {mode} gives wrong results")
    return shared.offered(step["collective"])


def timed(ranks, shared, step, mode):
    shared.force(step["collective"], mode)
    return max(it["us"] for it in ranks.ask({"do": "time", "mode": mode, **step}))


def search(args, ranks, shared, step, writer):
    """The best of all settings, by the middle of its ratios to NCCL's own in the same round."""
    pairs, channels = candidates()
    possible = [it for it in pairs if offered(ranks, shared, step, it)]
    modes = [pair + count for pair in possible for count in channels]
    ratios = {mode: [] for mode in modes}
    for round_ in range(SEARCH_ROUNDS):
        base = timed(ranks, shared, step, "default")
        writer.writerow([args.rig, args.ranks, step["collective"], step["bytes"], "default", round_, f"{base:.3f}"])
        for mode in modes:
            time = timed(ranks, shared, step, mode)
            ratios[mode].append(time / base)
            writer.writerow([args.rig, args.ranks, step["collective"], step["bytes"], mode, round_, f"{time:.3f}"])
    return min(modes, key=lambda it: statistics.median(ratios[it])) if modes else None


def look_again(args, ranks, shared, step, best, writer):
    """Ratios of NCCL's own to each, round by round."""
    modes = {"best": best, "plan": "plan" if args.plan else None, "default again": "default"}
    gains = {name: [] for name, mode in modes.items() if mode}
    for round_ in range(args.rounds):
        base = timed(ranks, shared, step, "default")
        rows = [("default", base)]
        for name in gains:
            time = timed(ranks, shared, step, modes[name])
            gains[name].append(base / time)
            rows.append((name if name != "best" else best, time))
        for name, time in rows:
            writer.writerow([args.rig, args.ranks, step["collective"], step["bytes"], name, round_, f"{time:.3f}"])
    shared.force(step["collective"], "plan")
    return {name: statistics.median(values) for name, values in gains.items()}


def measure(args, ranks, shared, writers):
    found = {}
    names = ["best", "plan", "default again"]
    print(f"{'collective':14}{'bytes':>11}  {'best setting':22}" + "".join(f"{it:>15}" for it in names), flush=True)
    for collective in args.collectives:
        for size in args.sizes:
            step = {"collective": collective, "bytes": size, "calls": run.calls_of(size)}
            best = search(args, ranks, shared, step, writers[0])
            gains = look_again(args, ranks, shared, step, best, writers[1])
            found[collective, size] = gains
            cells = "".join(f"{gains[it]:15.3f}" if it in gains else f"{'-':>15}" for it in names)
            print(f"{collective:14}{size:11}  {best or '-':22}{cells}", flush=True)
    return found


def report(found):
    for collective in dict.fromkeys(it[0] for it in found):
        for small, place in ((True, "up to 1 MiB"), (False, "above 1 MiB")):
            points = [it for key, it in found.items() if key[0] == collective and (key[1] <= 1 << 20) == small]
            if not points:
                continue
            names = [it for it in ("best", "plan", "default again") if it in points[0]]
            mean = {it: math.exp(statistics.fmean(math.log(point[it]) for point in points)) for it in names}
            least = {it: min(point[it] for point in points) for it in names}
            text = ", ".join(f"{it} {mean[it]:.3f} (least {least[it]:.3f})" for it in names)
            share = ""
            if "plan" in mean and mean["best"] > 1.001:
                share = f"; the plan gets {100 * math.log(mean['plan']) / math.log(mean['best']):.0f}% of the best"
            print(f"{collective}, {place}: {text}{share}")


def main():
    return run.session(run.options(), measure, report, ["search.csv", "times.csv"])


if __name__ == "__main__":
    sys.exit(main())
