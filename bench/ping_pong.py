"""What encryption costs at least on this machine: processes that do nothing but exchange bytes.

    PYTHONPATH=. python bench/ping_pong.py [--rounds 3]

Over TCP, and over TLS by OpenSSL with each cipher, by turns. Prints a Markdown table: microseconds of one
exchange, the least of all, and what the quickest cipher leaves of the rate in the clear.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import ssl
import tempfile
import threading
import time
from pathlib import Path

from tests.helpers.certificates import Authority

# Bytes there and back: a call, a call with 50 kB each way, an object of 1 MiB and a word back.
EXCHANGES = {
    "64 bytes each way": (64, 64),
    "50 kB each way": (50_000, 50_000),
    "1 MiB": (1 << 20, 64),
}
# Of TLS 1.2, where a program chooses the cipher; records of TLS 1.3 are encrypted alike.
CIPHERS = {
    "AES-128-GCM": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "AES-256-GCM": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ChaCha20": "ECDHE-ECDSA-CHACHA20-POLY1305",
}
SECONDS = 0.4


class Files:
    """A certificate, its key, and the authority of both."""

    def __init__(self, folder: Path) -> None:
        authority = Authority(folder)
        self.certificate, self.key = authority.sign("here", "127.0.0.1")
        self.authority = authority.path

    def context(self, cipher: str, *, is_server: bool) -> ssl.SSLContext:
        """A context that speaks with that cipher only."""
        side = ssl.PROTOCOL_TLS_SERVER if is_server else ssl.PROTOCOL_TLS_CLIENT
        context = ssl.SSLContext(side)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers(cipher)
        if is_server:
            context.load_cert_chain(self.certificate, self.key)
        else:
            context.load_verify_locations(self.authority)
        return context


def pair(files: Files, cipher: str | None) -> tuple[socket.socket, socket.socket]:
    """Two connected sockets, encrypted where a cipher is named."""
    accepted: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            far, _ = listener.accept()
            far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if cipher is not None:
                far = files.context(cipher, is_server=True).wrap_socket(far, server_side=True)
            accepted.append(far)

        thread = threading.Thread(target=accept)
        thread.start()
        near = socket.create_connection(listener.getsockname())
        near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if cipher is not None:
            context = files.context(cipher, is_server=False)
            near = context.wrap_socket(near, server_hostname="127.0.0.1")
        thread.join()
    return near, accepted[0]


def hear(sock: socket.socket, room: bytearray) -> bool:
    """Whether so many bytes came as there is room for; the other end may be gone."""
    view, got = memoryview(room), 0
    while got < len(room):
        count = sock.recv_into(view[got:])
        if count == 0:
            return False
        got += count
    return True


def measured(files: Files, cipher: str | None, there: int, back: int) -> float:
    """Microseconds of one exchange, the least of ten at a time."""
    near, far = pair(files, cipher)
    child = os.fork()
    if child == 0:
        room, answer = bytearray(there), bytes(back)
        with contextlib.suppress(OSError):
            while hear(far, room):
                far.sendall(answer)
        os._exit(0)
    text, room = bytes(there), bytearray(back)
    least, end = float("inf"), time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        began = time.perf_counter()
        for _ in range(10):
            near.sendall(text)
            hear(near, room)
        least = min(least, (time.perf_counter() - began) / 10)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    near.close()
    far.close()
    return 1e6 * least


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    ways: dict[str, str | None] = {"in the clear": None, **CIPHERS}
    print(f"| exchange (µs) | {' | '.join(ways)} | ratio |\n|---|{'--:|' * (len(ways) + 1)}")
    with tempfile.TemporaryDirectory() as folder:
        files = Files(Path(folder))
        for title, (there, back) in EXCHANGES.items():
            least = dict.fromkeys(ways, float("inf"))
            for _ in range(args.rounds):
                for way, cipher in ways.items():
                    least[way] = min(least[way], measured(files, cipher, there, back))
            best = min(least[way] for way in CIPHERS)
            cells = " | ".join(f"{took:,.1f}" for took in least.values())
            print(f"| {title} | {cells} | {least['in the clear'] / best:.2f} |", flush=True)


if __name__ == "__main__":
    main()
