"""pottery's Redlock as a peer; tools/peers/README.md says how it is spoken to."""

import os
import pathlib
import sys
import threading
import time

import redis
from pottery import Redlock

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "python"))
from contend import TTL, contend


class Task(threading.Thread):
    def __init__(self, masters, name, fresh):
        super().__init__(daemon=True)
        self.masters = masters
        self.name_of_lock = name
        self.fresh = fresh
        self.count = 0

    def lock(self, name):
        return Redlock(key=name, masters=self.masters, auto_release_time=TTL)

    def run(self):
        lock = self.lock(self.name_of_lock)
        number = 0
        while True:
            number += 1
            if self.fresh:
                lock = self.lock(f"{self.name_of_lock}/{number:010}")
            lock.acquire()
            lock.release()
            self.count += 1


def failed(args):
    sys.__excepthook__(args.exc_type, args.exc_value, args.exc_traceback)
    os._exit(1)


def lock(urls, name):
    masters = {redis.Redis.from_url(url) for url in urls}
    for master in masters:
        master.ping()
    return Redlock(key=name, masters=masters, auto_release_time=TTL)


def pairs():
    _job, _runtime, tasks, names, prefix = sys.argv[1:]
    threading.excepthook = failed
    masters = {redis.Redis.from_url(url) for url in sys.stdin.readline().split()}
    fresh = names == "fresh"
    tasks = [Task(masters, f"{prefix}/{task:08}", fresh) for task in range(int(tasks))]
    for task in tasks:
        task.start()
    while any(task.count == 0 for task in tasks):
        time.sleep(0.005)
    print("ready", flush=True)
    for _ in sys.stdin:
        print(sum(task.count for task in tasks), flush=True)
    # The tasks never end.
    os._exit(0)


if sys.argv[1] == "pairs":
    pairs()
else:
    contend(lock)
