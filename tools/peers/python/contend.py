"""The part that the Python peers share: the tasks, the judge and the report; tools/peers/README.md has the words."""

import fcntl
import json
import os
import struct
import sys
import threading
import time

TTL = int(os.environ.get("PEER_TTL_MS", "30000")) / 1000


def note(file):
    """At once: the process may be killed before its report."""
    with open(file + ".notes", "ab", buffering=0) as notes:
        notes.write(b"o")


class Task(threading.Thread):
    def __init__(self, lock, job, number):
        super().__init__(daemon=True)
        self.lock = lock
        self.file = os.open(job.file, os.O_RDWR)
        self.job = job
        self.me = (job.process, number)
        self.asked = None
        self.waits_us = []
        self.count = self.handoffs = self.local = self.visits = self.overlaps = 0

    def run(self):
        while not self.job.ended:
            self.asked = time.monotonic()
            self.lock.acquire()
            waited, self.asked = time.monotonic() - self.asked, None
            alone = self.enter(waited)
            if self.job.hold:
                time.sleep(self.job.hold)
            if alone:
                fcntl.flock(self.file, fcntl.LOCK_UN)
            self.lock.release()

    def enter(self, waited):
        marked = self.job.marked
        if marked:
            self.count += 1
        self.visits += 1
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.overlaps += 1
            note(self.job.file)
            return False
        before = struct.unpack("<II", os.pread(self.file, 8, 0))
        os.pwrite(self.file, struct.pack("<II", *self.me), 0)
        if marked and before[0] and before != self.me:
            self.waits_us.append(int(waited * 1e6))
            self.handoffs += 1
            self.local += before[0] == self.me[0]
        return True


class Job:
    def __init__(self, hold_us, name, file, process):
        self.hold = int(hold_us) / 1e6
        self.name = name
        self.file = file
        self.process = int(process)
        self.marked = self.ended = False

    def failed(self, args):
        if not self.ended:
            sys.__excepthook__(args.exc_type, args.exc_value, args.exc_traceback)
            os._exit(1)

    def report(self, tasks):
        now = time.monotonic()
        since = [asked for asked in (task.asked for task in tasks) if asked is not None]

        def total(what):
            return sum(getattr(task, what) for task in tasks)

        return {
            "counts": [task.count for task in tasks],
            "waits_us": [wait for task in tasks for wait in task.waits_us],
            "unfinished_us": [int((now - asked) * 1e6) for asked in since],
            "handoffs": total("handoffs"),
            "local": total("local"),
            "visits": total("visits"),
            "overlaps": total("overlaps"),
            "fallen": 0,
        }


def contend(lock):
    """Is the program. `lock` makes the lock of a task, of the servers' URLs and a name."""
    bench, _runtime, tasks, _lock, *rest = sys.argv[1:]
    assert bench == "contention"
    job = Job(*rest)
    threading.excepthook = job.failed
    urls = sys.stdin.readline().split()
    tasks = [Task(lock(urls, job.name), job, number + 1) for number in range(int(tasks))]
    print("ready", flush=True)
    for line in sys.stdin:
        order = line.strip()
        if order == "begin":
            for task in tasks:
                task.start()
        elif order == "mark":
            job.marked = True
        elif order == "enough":
            job.marked = False
        elif order == "end":
            job.ended = True
            print(json.dumps(job.report(tasks)), flush=True)
            break
    # Tasks that wait would do so for ever.
    os._exit(0)
