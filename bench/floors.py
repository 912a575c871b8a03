"""What this machine does without any framework, as bounds for the rows of core.py; see README.md."""

import argparse
import ctypes
import functools
import json
import mmap
import multiprocessing
import os
import pickle
import socket
import subprocess
import sys
import threading

from core import summary, window

CALLS, SIZE, ROWS = [("small", (i,), {}) for i in range(1000)], 800_000_000, {}
copy = ctypes.CDLL(None).memcpy  # a call through CDLL leaves the GIL
copy.argtypes = ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t


def floor(name, fn, mult=1, unit="1/s"):
    rates = [mult * window(fn, ARGS.seconds) for _ in range(ARGS.repeat + 1)]
    ROWS[name] = summary(name, unit, rates[1:])  # the first warms up


def echo(sock):
    while True:
        sock.send(sock.recv(4096))


def answer(conn):
    while True:
        calls = conn.recv()
        conn.send([args for _, args, _ in calls] if isinstance(calls, list) else b"ok")


def served(loop, ends):
    multiprocessing.get_context("fork").Process(target=loop, args=ends[1:], daemon=True).start()
    return ends[0]


def messages():
    sock, pipe = served(echo, socket.socketpair()), served(answer, multiprocessing.Pipe())
    floor("UNIX socket ping-pong 64 B", lambda: sock.send(b"x" * 64) and sock.recv(4096))

    def call(message, ahead=1):
        for _ in range(ahead):
            pipe.send(message)
        for _ in range(ahead):
            pipe.recv()

    floor("pipe call sync", lambda: call(CALLS[0]))
    floor("pipe calls, 100 in flight", lambda: call(CALLS[0], 100), 100)
    floor("pipe calls, 1000 in a message", lambda: call(CALLS), 1000)
    floor("pickle round trip of a call", lambda: pickle.loads(pickle.dumps(CALLS[0], 5)))


def copies():
    def address(buffer):
        return ctypes.addressof(ctypes.c_char.from_buffer(buffer))

    source = bytearray(b"\1") * SIZE

    def fill(shared, threads):
        part, to, of = SIZE // threads, address(shared), address(source)
        them = [
            threading.Thread(target=copy, args=(to + i * part, of + i * part, part))
            for i in range(threads)
        ]
        for step in (threading.Thread.start, threading.Thread.join):
            for t in them:
                step(t)

    warm = mmap.mmap(-1, SIZE)  # shared and anonymous: shmem pages
    for threads in (1, 2):
        row = functools.partial(fill, threads=threads)
        name = f"copy, {threads} thread, new shared"
        new = [
            0.8 * window(lambda row=row: row(mmap.mmap(-1, SIZE)), 0) for _ in range(ARGS.repeat)
        ]
        ROWS[name] = summary(name, "GB/s", new)
        floor(f"copy, {threads} thread, warm shared", functools.partial(row, warm), 0.8, "GB/s")


def fork():
    if (pid := os.fork()) == 0:
        os._exit(0)
    os.waitpid(pid, 0)


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    for name, default in {"seconds": 1.0, "repeat": 3, "json": ""}.items():
        p.add_argument("--" + name, type=type(default), default=default)
    ARGS = p.parse_args()
    floor("fork, exit, wait", fork)
    floor("python -c pass", lambda: subprocess.run([sys.executable, "-c", "pass"], check=True))
    floor("python -ISc pass", lambda: subprocess.run([sys.executable, "-ISc", "pass"], check=True))
    messages()
    copies()
    if ARGS.json:
        json.dump({"rows": ROWS}, open(ARGS.json, "w"), indent=1)
