#!/usr/bin/env python3
"""A job with a plan that is missing, damaged, hostile or another network's must run as it does without Motet.

    wrong_plans.py --nccl … --plugin … --plan plan --rig sockets --ranks 2 --out results [other options of run.py]

Spoils copies of the plan in many ways, and runs the same calls with each: every element is checked, and what NCCL's log
says of every call (algorithm, protocol, channels) is held against a run without Motet. The plan itself must change some of
them, or nothing would be proved. Writes OUT/wrong.csv."""

import csv
import os
import re
import shutil
import sys

import control
import run

CHOICE = re.compile(r"NCCL INFO (\w+: \d+ Bytes -> .*)")


def checksum(data):
    """CRC-64 of ECMA-182, as in the file `checksums`."""
    crc = (1 << 64) - 1
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xC96C5795D7870F42 if crc & 1 else 0)
    return f"{crc ^ (1 << 64) - 1:016x}"


def read(folder, name):
    with open(os.path.join(folder, name), "rb") as file:
        return file.read()


def put(folder, name, data):
    with open(os.path.join(folder, name), "wb") as file:
        file.write(data)


def table(lines):
    """A table's text with its own checksum, which the last line has."""
    body = "".join(lines)
    return (body + f"checksum {checksum(body.encode())}\n").encode()


def seal(folder):
    """Writes checksums that fit, so that the content is what is judged."""
    lines = read(folder, "checksums").decode().splitlines()[:-1]
    sums = dict(reversed(line.split(" ", 1)) for line in lines)
    sums.update((name, checksum(read(folder, name))) for name in ("plan.json", "table"))
    text = "".join(f"{it} {name}\n" for name, it in sums.items())
    put(folder, "checksums", (text + f"{checksum(text.encode())} checksums\n").encode())


def altered(change, name="table"):
    """The file changed by `change`, and all checksums made to fit."""

    def spoil(folder):
        text = read(folder, name).decode()
        if name == "table":
            put(folder, name, table(change(text).splitlines(keepends=True)[:-1]))
        else:
            put(folder, name, change(text).encode())
        seal(folder)

    return spoil


def replaced(make, name="table"):
    """Something else in the file's place."""

    def spoil(folder):
        path = os.path.join(folder, name)
        os.unlink(path)
        make(path)

    return spoil


def all_as(setting):
    """A table that asks for one setting everywhere."""
    return lambda text: re.sub(r"^(nccl time=\d+).*", rf"\1 {setting}", text, flags=re.M)


def one_more(field):
    """A plan for one more of these than the job has."""
    return lambda text: re.sub(rf'"{field}": (\d+)', lambda it: f'"{field}": {int(it[1]) + 1}', text, count=1)


KINDS = {
    "missing": shutil.rmtree,
    "empty": lambda it: [shutil.rmtree(it), os.mkdir(it)],
    "no table": lambda it: os.unlink(os.path.join(it, "table")),
    "no checksums": lambda it: os.unlink(os.path.join(it, "checksums")),
    "cut short": lambda it: put(it, "table", read(it, "table")[:200]),
    "one bit wrong": lambda it: put(it, "table", bytes([read(it, "table")[0] ^ 1]) + read(it, "table")[1:]),
    "not text": lambda it: [put(it, "table", os.urandom(9000)), seal(it)],
    "not a plan": lambda it: [put(it, "plan.json", b"[]"), seal(it)],
    "newer": altered(lambda text: text.replace('"motet_plan": 2', '"motet_plan": 99'), "plan.json"),
    "a pipe": replaced(os.mkfifo),
    "a device": replaced(lambda path: os.symlink("/dev/zero", path)),
    "itself": replaced(lambda path: os.symlink(path, path)),
    "64 MiB of lines": lambda it: put(it, "table", b"motet-table 1\n" + b"\n" * (64 << 20)),
    "a billion channels": altered(all_as("algorithm=ring protocol=simple channels=1000000000")),
    "an unknown algorithm": altered(all_as("algorithm=teleport protocol=simple")),
    # Well-formed, and asks for what NCCL does not offer here.
    "switches that are not there": altered(all_as("algorithm=nvls protocol=simple channels=16")),
    "for more ranks": altered(one_more("ranks"), "plan.json"),
    "for more machines": altered(one_more("nodes"), "plan.json"),
}


def choices(args, name, load, plan):
    """What NCCL's log says of every call on every rank, and whether all was right."""
    args.load, args.plan = load, plan
    args.out = os.path.join(args.results, name.replace(" ", "-"))
    os.makedirs(args.out, exist_ok=True)
    path = os.path.join(args.out, "control")
    control.Control(path)
    ranks = run.Ranks(args, {**run.environment_of(args, path), **args.mps.environment()})
    ranks.ask({"do": "about"})
    identity = ranks.ask({"do": "identity"}, only=0)[0]["id"]
    ranks.ask({"do": "begin", "id": identity})
    ranks.ask({"do": "room", "bytes": max(args.sizes)})
    right = True
    for collective in args.collectives:
        for size in args.sizes:
            step = {"do": "check", "collective": collective, "bytes": size, "calls": 1}
            right &= all(it["right"] for it in ranks.ask(step))
    ranks.end()
    found, said = [], ""
    for rank in range(args.ranks):
        text = read(args.out, f"rank-{rank}.log").decode(errors="replace")
        found.append(CHOICE.findall(text))
        said = said or next(iter(re.findall(r"Motet: (.*)", text)), "")
    return found, right, said


def judge(args, writer):
    plan = args.plan
    own, right, _ = choices(args, "without", "none", None)
    changed, right_too, _ = choices(args, "the plan", "both", plan)
    calls = sum(map(len, own))
    if not right or not right_too or calls == 0 or own == changed:
        print(f"{calls} choices in NCCL's log; the plan must change some of them, and all must be right")
        return 2
    print(f"{calls} choices of NCCL; the plan changes {sum(a != b for x, y in zip(own, changed) for a, b in zip(x, y))}")
    bad = 0
    for name, spoil in KINDS.items():
        folder = os.path.join(args.results, "plans", name.replace(" ", "-"))
        shutil.copytree(plan, folder)
        spoil(folder)
        found, right, said = choices(args, name, "both", folder)
        same = found == own
        bad += not (same and right)
        writer.writerow([name, int(right), int(same), said])
        print(f"{name:28} {'right' if right else 'WRONG'}, {'as without Motet' if same else 'OTHERWISE'}: {said[:150]}", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if bad else 0


def main():
    args = run.options()
    if not args.plan:
        print("wrong_plans.py: --plan is needed", file=sys.stderr)
        return 2
    args.results = args.out
    os.makedirs(args.out, exist_ok=True)
    args.mps = run.Mps(args.nccl != "dry" and args.ranks > args.gpus and not args.no_mps)
    try:
        with open(os.path.join(args.out, "wrong.csv"), "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["plan", "right", "as_without", "said"])
            return judge(args, writer)
    except run.Fault as fault:
        print(f"wrong_plans.py: {fault}", file=sys.stderr)
        return 2
    finally:
        args.mps.stop()


if __name__ == "__main__":
    sys.exit(main())
