"""A worker of the tests: it speaks just enough of the wire to register and to do what its lines say."""

import os
import signal
import socket
import struct
import sys
import threading
import time

if "HELIOSTAT_WORKER_ID" not in os.environ:  # the zygote loads this module, too
    if os.environ.get("TEST_THREAD"):
        # Not what a module that the zygote loads should do.
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    if os.environ.get("TEST_NO_ANSWER"):
        # It stands still between its fork and its answer.
        os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), signal.SIGSTOP))


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, str):
        value = value.encode()
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def parse(data):
    fields = {}
    at = 0

    def number():
        nonlocal at
        shift = value = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = number()
        if key & 7 == 0:
            fields[key >> 3] = number()
        else:
            length = number()
            fields[key >> 3] = data[at : at + length]
            at += length
    return fields


def send(sock, body):
    sock.sendall(struct.pack("<I", len(body)) + body)


def exactly(sock, n):
    data = b""
    while len(data) < n:
        got = sock.recv(n - len(data))
        if not got:
            os._exit(0)
        data += got
    return data


def receive(sock):
    return exactly(sock, struct.unpack("<I", exactly(sock, 4))[0])


def main():
    worker_id = bytes.fromhex(os.environ["HELIOSTAT_WORKER_ID"])
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(os.environ["HELIOSTAT_NODE_SOCKET"])
    token = os.environ["HELIOSTAT_AUTH_TOKEN"]
    send(sock, field(1, 1) + field(3, token) + field(4, 2) + field(5, worker_id))
    if os.environ.get("TEST_DIE_EARLY"):
        sys.stderr.write("cannot live\n")
        os._exit(3)
    register = field(1, worker_id) + field(3, os.getpid())
    send(sock, field(1, register))
    assert not parse(receive(sock)).get(1), "refused"
    while True:
        ((number, body),) = parse(receive(sock)).items()
        if number == 17:  # StartActor
            spec = parse(parse(body)[1])
            behave(sock, spec[1], spec.get(9, b"").decode())
        elif number == 16:  # Exit
            print("told to exit")
            sys.exit(0)


def behave(sock, actor_id, name):
    """What an actor of that class does."""
    print(f"\x01:name:{name}")
    print("out", os.environ.get("TEST_VARIABLE", ""), os.getcwd())
    sys.stderr.write("err\n")
    if name == "Raises":
        send(sock, field(17, field(1, actor_id) + field(2, b"pickled") + field(3, "boom")))
        return
    send(sock, field(17, field(1, actor_id)))
    if name == "Exits":
        sys.stdout.write("no end of line")
        sys.stdout.flush()
        os._exit(7)
    if name == "Killed":
        os.kill(os.getpid(), 9)
