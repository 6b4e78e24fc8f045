#!/usr/bin/env python3
"""Motet's searchers beside Optuna's multivariate TPE with Hyperband, on the same surfaces.

    cargo build --release -p motet-tune --example surfaces
    target/release/examples/surfaces record DIR          # minutes
    python3 -m venv VENV && VENV/bin/pip install optuna==5.0.0
    VENV/bin/python benches/search/compare.py DIR

A surface is one task with every point of its knobs timed once (DIR/*.csv). Both sides see it
through noise (5% of the time per iteration, standard deviation), with 81 iterations as full
length and ratio 3, 20 seeds each. What is asked is the cost until the best of the points that a
method has run at full length, by their means, is truly within 1% of the best, as a part of what the
full grid costs (every point that can run, 81 iterations each). Optuna is told
nothing of points that cannot run: they cost it nothing and do not enter its model, which serves
it better here than calling them bad.

Columns, all medians over seeds but the last two:
  to 1%      iterations until that point is first within 1%, in % of the grid's
  hits       seeds that came there within a tenth of the grid
  stays      iterations from which on it stays within 1%, in % of the grid's
  trials     profiles until the first
  time       the same as `to 1%`, in profiled time and in % of the grid's
  restarts   the same with 0.25 s for each new communicator, for which methods were told to look
  stop       iterations when the method's own rule ended the search (Optuna has none)
  regret     how far from the best it then truly was, median and worst
  within     seeds that ended within 1%
Exits with 1 if the default method breaks the project's bar anywhere: more than 0.6% of the grid, or
more than Optuna, in `to 1%`.
"""

import argparse
import csv
import json
import math
import random
import statistics
import subprocess
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

FULL, RATIO, NOISE = 81, 3, 0.05
RUNGS = [1, 3, 9, 27, 81]
RESTART_PS = 0.25e12
BAR = 0.6
DEFAULT = "mraco"
METHODS = [DEFAULT, "surrogate", "hyperband", "coordinate", "random", "literal"]
KNOBS = ["program", "protocol", "channels", "threads", "buffer"]
CATEGORICAL = {"program", "protocol"}


class Surface:
    """Every point of a task and its time, `None` where it cannot run."""

    def __init__(self, path):
        self.path, self.name = path, path.stem
        with open(path, newline="") as file:
            rows = list(csv.DictReader(file))
        value = lambda text: int(text) if text.isdigit() else text
        self.values = {knob: sorted({value(row[knob]) for row in rows}) for knob in KNOBS}
        key = lambda row: tuple(value(row[knob]) for knob in KNOBS)
        self.times = {key(row): int(row["time_ps"]) if row["time_ps"] else None for row in rows}
        running = {key: time for key, time in self.times.items() if time is not None}
        self.points, self.best = len(running), min(running.values())
        self.grid_time = FULL * sum(running.values())
        self.grid_restarts = self.grid_time + RESTART_PS * len({key[3:] for key in running})
        self.near = sum(time <= self.best * 1.01 for time in running.values())

    def iterations(self, cost):
        return 100 * cost["iterations"] / (FULL * self.points) if cost else math.inf

    def time(self, cost):
        return 100 * cost["time_ps"] / self.grid_time if cost else math.inf

    def with_restarts(self, cost):
        if not cost:
            return math.inf
        return 100 * (cost["time_ps"] + RESTART_PS * cost["restarts"]) / self.grid_restarts


def suggest(trial, surface):
    point = []
    for knob, values in surface.values.items():
        if len(values) == 1:
            point.append(values[0])
        elif knob in CATEGORICAL:
            point.append(trial.suggest_categorical(knob, values))
        else:
            point.append(values[trial.suggest_int(knob, 0, len(values) - 1)])
    return tuple(point)


def optuna_run(job):
    """One seed of Optuna, until its incumbent is within 1% or a tenth of the grid is spent."""
    import optuna

    path, seed = job
    warnings.simplefilter("ignore")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    surface, draw = Surface(path), random.Random(seed)
    study = optuna.create_study(
        # Its pruner deals brackets out by the name, which would else be random.
        study_name=f"{surface.name} {seed}",
        sampler=optuna.samplers.TPESampler(multivariate=True, seed=seed),
        pruner=optuna.pruners.HyperbandPruner(
            min_resource=1, max_resource=FULL, reduction_factor=RATIO
        ),
    )
    cost = {"trials": 0, "iterations": 0, "time_ps": 0.0, "restarts": 0}
    incumbent, communicator = math.inf, None
    # Trials cost Optuna itself time, those that cannot run too; so there is an end to them.
    for _ in range(2000):
        if cost["iterations"] >= FULL * surface.points // 10:
            break
        trial = study.ask()
        point = suggest(trial, surface)
        time = surface.times.get(point)
        if time is None:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
            continue
        cost["trials"] += 1
        cost["restarts"] += point[3:] != communicator
        communicator = point[3:]
        done, total = 0, 0.0
        for rung in RUNGS:
            total += sum(time * (1 + NOISE * draw.gauss(0, 1)) for _ in range(done, rung))
            done = rung
            trial.report(total / done, done)
            if trial.should_prune():
                break
        cost["iterations"] += done
        cost["time_ps"] += total
        if done < FULL:
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
            continue
        study.tell(trial, total / done)
        if total / done < incumbent:
            incumbent = total / done
            if time <= surface.best * 1.01:
                return {"seed": seed, "hit": cost}
    return {"seed": seed, "hit": None}


def motet_runs(binary, surface, method, seeds, restart):
    command = [binary, "search", surface.path, method, str(seeds), str(NOISE), restart]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def figure(value):
    return "-" if value is None else "inf" if math.isinf(value) else f"{value:.3f}"


def row(surface, method, runs, dear):
    median = lambda of, runs: statistics.median(map(of, runs))
    hit = median(lambda it: surface.iterations(it["hit"]), runs)
    hits = sum(it["hit"] is not None for it in runs)
    trials = median(lambda it: it["hit"]["trials"] if it["hit"] else math.inf, runs)
    own = "end" in runs[0]
    cells = [
        f"{method:12}",
        f"{figure(hit):>7}",
        f"{hits:>4}",
        f"{figure(median(lambda it: surface.iterations(it['stays']), runs) if own else None):>7}",
        f"{trials:>6.0f}" if trials < math.inf else "   inf",
        f"{figure(median(lambda it: surface.time(it['hit']), runs)):>7}",
        f"{figure(median(lambda it: surface.with_restarts(it['hit']), dear)):>8}",
    ]
    if own:
        regrets = [100 * (math.inf if it["regret"] is None else it["regret"]) for it in runs]
        cells += [
            f"{figure(median(lambda it: surface.iterations(it['end']), runs)):>7}",
            f"{statistics.median(regrets):>6.2f}% {max(regrets):>7.2f}%",
            f"{sum(it <= 1 for it in regrets):>6}",
        ]
    print("  ".join(cells), flush=True)
    return hit


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where `surfaces record` wrote its files")
    parser.add_argument("--binary", type=Path, default=Path("target/release/examples/surfaces"))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--methods", nargs="*", default=METHODS)
    given = parser.parse_args()
    with open(given.folder / "index.csv", newline="") as file:
        index = {row["name"]: row["used"] for row in csv.DictReader(file)}
    broken = []
    for name, used in index.items():
        surface = Surface(given.folder / f"{name}.csv")
        print(
            f"\n{name}: {surface.points} points that run, {surface.near} of them "
            f"({100 * surface.near / surface.points:.1f}%) within 1% of the best; {used}"
        )
        print(
            "method          to 1%  hits    stays  trials     time  restarts     stop"
            "   regret (worst)  within"
        )
        jobs = [(surface.path, seed) for seed in range(given.seeds)]
        with ProcessPoolExecutor(given.jobs) as pool:
            optuna = list(pool.map(optuna_run, jobs))
        theirs = row(surface, "optuna", optuna, optuna)
        with ThreadPoolExecutor(given.jobs) as pool:
            asked = [(method, restart) for method in given.methods for restart in ("0", "250 ms")]
            run = lambda it: motet_runs(given.binary, surface, it[0], given.seeds, it[1])
            ours = dict(zip(asked, pool.map(run, asked)))
        for method in given.methods:
            hit = row(surface, method, ours[method, "0"], ours[method, "250 ms"])
            if method == DEFAULT and (hit > BAR or hit > theirs):
                broken.append(name)
    print(f"\nthe bar is broken on: {', '.join(broken)}" if broken else "\nthe bar holds everywhere")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
