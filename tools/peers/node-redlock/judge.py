"""Asks the judge's file for a program whose language has no flock(2): `enter TASK`, `leave TASK`."""

import fcntl
import os
import struct
import sys

path, process = sys.argv[1], int(sys.argv[2])
files = {}
for line in sys.stdin:
    order, task = line.split()
    if task not in files:
        files[task] = os.open(path, os.O_RDWR)
    file = files[task]
    if order == "leave":
        fcntl.flock(file, fcntl.LOCK_UN)
        print("left", flush=True)
        continue
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        # At once: the process may be killed before its report.
        with open(path + ".notes", "ab", buffering=0) as notes:
            notes.write(b"o")
        print("overlap 0 0", flush=True)
        continue
    before = struct.unpack("<II", os.pread(file, 8, 0))
    os.pwrite(file, struct.pack("<II", process, int(task)), 0)
    print("alone", *before, flush=True)
