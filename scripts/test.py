#!/usr/bin/env python3
"""Runs all tests: builds them once, then runs two parts at a time, the longest first.

Most tests wait, for a browser, a server or a timeout; two parts at a time keep two cores busy. A part is a program of Rust
tests, as cargo names it, or one of the stages below. Names as arguments select parts; --list shows them. The output of a part
is printed when the part ends, in one piece. Exit code 1 if a part fails; the last lines name it.

Temporary files lie in memory where there is room for them: a disk that stands still for seconds fails no test.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CARGO = os.environ.get("CARGO", "cargo")
# Parts at a time.
LANES = 2
# Seconds after which a part that hangs ends as a failure.
LIMIT = 1500
# Parts that take a minute or more on two cores, the longest first; the others follow.
LONG = [
    "copilotkit", "e2e", "package", "faults", "chaos", "real", "python", "console", "model", "agui", "contract", "nodes", "simulation",
    "tour", "cluster",
]
# File system in memory for temporary files, and the free bytes that it needs: tests hold about 1 GiB at a time.
MEMORY = Path("/dev/shm")
ROOM = 4 << 30
# Tests of other programs than cargo's: a target of the Makefile each.
STAGES = ["package", "python", "console", "tour", "cluster", "docs"]


class Part:
    def __init__(self, name, command, cwd=ROOT, env=None):
        self.name, self.command, self.cwd, self.env = name, command, cwd, env or {}


def built():
    """The programs of Rust tests, built."""
    command = [CARGO, "test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"]
    parts = []
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as build:
        for line in build.stdout:
            message = json.loads(line)
            if message.get("reason") != "compiler-artifact" or not message["profile"]["test"] or not message["executable"]:
                continue
            target, folder = message["target"], Path(message["manifest_path"]).parent
            name = target["name"] if target["kind"] == ["test"] else f"unit tests of {target['name']} ({target['kind'][0]})"
            parts.append(Part(name, [message["executable"]], folder, {"CARGO_MANIFEST_DIR": str(folder)}))
    if build.returncode:
        sys.exit(build.returncode)
    return parts


def stages():
    return [Part(name, ["make", "--no-print-directory", f"test-{name}"]) for name in STAGES]


class Runner:
    def __init__(self, parts):
        order = {name: place for place, name in enumerate(LONG)}
        self.waiting = sorted(parts, key=lambda part: order.get(part.name, len(LONG)))
        self.running, self.failed, self.stopped = {}, [], False
        self.lock = threading.Lock()

    def stop(self, *_):
        """Ends the running parts with what they have started."""
        self.stopped = True
        for process in list(self.running.values()):
            end(process)

    def lane(self):
        while True:
            with self.lock:
                if self.stopped or not self.waiting:
                    return
                part = self.waiting.pop(0)
            self.run(part)

    def run(self, part):
        begin = time.monotonic()
        process = subprocess.Popen(
            part.command, cwd=part.cwd, env={**os.environ, **part.env}, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        self.running[part.name] = process
        late = threading.Timer(LIMIT, end, [process])
        late.start()
        output = process.stdout.read()
        busy = processor_seconds(process)
        late.cancel()
        del self.running[part.name]
        seconds, passed = time.monotonic() - begin, process.returncode == 0
        with self.lock:
            print(f"-- {part.name}", flush=True)
            sys.stdout.buffer.write(output)
            print(f"-- {part.name} {'passed' if passed else 'FAILED'} after {seconds:.0f} s, {busy} s of CPU", flush=True)
            if not passed:
                self.failed.append(part.name)


def processor_seconds(process):
    """Waits for a process; the CPU seconds of it and of those of its descendants that were waited for: no daemons."""
    try:
        _, status, usage = os.wait4(process.pid, 0)
    except ChildProcessError:
        # The part was ended, and waited for by `end`.
        process.wait()
        return "?"
    process.returncode = os.waitstatus_to_exitcode(status)
    return round(usage.ru_utime + usage.ru_stime)


def end(process):
    """Ends a process group: with SIGTERM, and with SIGKILL ten seconds later."""
    for kill in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, kill)
            process.wait(10)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            pass


@contextlib.contextmanager
def temporary():
    """Has all programs put their temporary files into a directory in memory, if it has room; removes it at the end."""
    if "TMPDIR" in os.environ or not MEMORY.is_dir() or min(shutil.disk_usage(MEMORY).free, free_memory()) < ROOM:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="threadline-", dir=MEMORY, ignore_cleanup_errors=True) as directory:
        # Postgres runs as a user without rights.
        os.chmod(directory, 0o1777)
        os.environ["TMPDIR"] = directory
        yield


def free_memory():
    """Bytes that programs can have without swapping."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    arguments.add_argument("names", nargs="*", metavar="PART", help="parts to run (default: all)")
    arguments.add_argument("--list", action="store_true", help="build, and print the names of all parts")
    chosen = arguments.parse_args()
    begin = time.monotonic()
    parts = built() + stages()
    print(f"-- built in {time.monotonic() - begin:.0f} s", flush=True)
    names = [part.name for part in parts]
    if chosen.list:
        print("\n".join(names))
        return 0
    unknown = [name for name in chosen.names if name not in names]
    if unknown:
        sys.exit(f"no part has the name {unknown[0]!r}: scripts/test.py --list")
    runner = Runner([part for part in parts if not chosen.names or part.name in chosen.names])
    signal.signal(signal.SIGTERM, runner.stop)
    signal.signal(signal.SIGINT, runner.stop)
    lanes = [threading.Thread(target=runner.lane) for _ in range(LANES)]
    with temporary():
        for lane in lanes:
            lane.start()
        for lane in lanes:
            lane.join()
    print(f"-- all tests took {(time.monotonic() - begin) / 60:.1f} min", flush=True)
    for name in runner.failed:
        print(f"FAILED: {name}", flush=True)
    return 1 if runner.failed or runner.stopped else 0


if __name__ == "__main__":
    sys.exit(main())
