#!/usr/bin/env python3
"""Counts what is left of a user's Ostler, asked of the kernel alone. It knows nothing of Ostler's own state.

    census.py --marker TEXT... --folder DIRECTORY [--leaves GLOB]

Prints one JSON object, a list for each kind:

    processes    carry a marker in their environment or on their command line, and live
    zombies      children of those, dead and not reaped
    descriptors  of anybody, open on something below the folder
    sockets      bound to a name below the folder
    folders      of runtimes
    leaves       control groups of the pattern
"""

import argparse
import glob
import json
import os


def read(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def processes(markers):
    alive, dead = {}, []
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        line = read(f"/proc/{pid}/cmdline")
        environment = read(f"/proc/{pid}/environ")
        # The arguments of this very process carry the markers.
        if pid != os.getpid() and any(marker in environment or marker in line for marker in markers):
            alive[pid] = line.replace(b"\0", b" ").decode(errors="replace").strip()
        status = dict(entry.split(":\t", 1) for entry in read(f"/proc/{pid}/status").decode(errors="replace").splitlines())
        # What is dead has neither an environment nor a command line: it is known by its parent.
        if status.get("State", "").startswith("Z"):
            dead.append({"pid": pid, "parent": int(status["PPid"]), "command": status["Name"]})
    zombies = [zombie for zombie in dead if zombie["parent"] in alive]
    return [{"pid": pid, "command": command} for pid, command in alive.items()], zombies


def descriptors(folder):
    found = []
    for link in glob.glob("/proc/[0-9]*/fd/*"):
        try:
            target = os.readlink(link)
        except OSError:
            continue
        if target.startswith(folder + "/"):
            found.append({"pid": int(link.split("/")[2]), "target": target})
    return found


def sockets(folder):
    lines = read("/proc/net/unix").decode(errors="replace").splitlines()[1:]
    names = [line.split(None, 7)[7] for line in lines if len(line.split(None, 7)) == 8]
    return [name for name in names if name.startswith(folder + "/")]


def leaves(pattern):
    if not pattern:
        return []
    mounts = [line.split() for line in read("/proc/mounts").decode().splitlines()]
    roots = [fields[1] for fields in mounts if fields[2] == "cgroup2"]
    return [path for root in roots for path in glob.glob(f"{root}/**/{pattern}", recursive=True)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--marker", required=True, nargs="+")
    parser.add_argument("--folder", required=True)
    parser.add_argument("--leaves", default="")
    options = parser.parse_args()
    folder = os.path.realpath(options.folder)
    alive, dead = processes([marker.encode() for marker in options.marker])
    print(json.dumps({
        "processes": alive,
        "zombies": dead,
        "descriptors": descriptors(folder),
        "sockets": sockets(folder),
        "folders": glob.glob(f"{folder}/run/*/*"),
        "leaves": leaves(options.leaves),
    }))


main()
