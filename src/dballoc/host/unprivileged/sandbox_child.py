"""The child's side of :class:`dballoc.host.unprivileged.sandbox.Sandbox`."""

import contextlib
import importlib
import math
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from dballoc.host.unprivileged.give_up_rights import give_up_rights, limit_process
from dballoc.host.unprivileged.sandbox_messages import (
    HEAD,
    MOST_DESCRIPTORS,
    MOST_REQUEST,
    receive_message,
    send_message,
)

Functions = Mapping[str, Callable[..., Any]]


def serve(module: str, descriptor: int) -> None:
    """Be the child: give up all rights, then answer until the other end closes."""
    with socket.socket(fileno=descriptor) as talk:
        try:
            functions = _prepare(module)
            limit_process()
        except Exception as error:  # it has no other way to tell than to answer the first request
            receive_message(talk, MOST_REQUEST, None)
            _answer(talk, {"refused": f"its parser cannot begin: {error}"})
            return
        _answer_requests(talk, functions)


def serve_children(module: str, descriptor: int) -> None:
    """Be the parent of children, for who cannot start programs any more: give up all rights, then
    fork a child for each socket that comes, until the other end closes. It reads nothing of others.
    """
    with socket.socket(fileno=descriptor) as orders:
        try:
            functions = _prepare(module)
        except Exception as error:
            send_message(orders, {"refused": str(error)})
            return
        send_message(orders, {"refused": ""})
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
        while True:
            _, received, _, _ = socket.recv_fds(orders, 1, 1)
            if not received:
                return
            with socket.socket(fileno=received[0]) as talk, contextlib.suppress(OSError):
                if os.fork() == 0:
                    orders.close()
                    _be_child(talk, functions)


def _be_child(talk: socket.socket, functions: Functions) -> NoReturn:
    try:
        limit_process()
        _answer_requests(talk, functions)
    finally:
        os._exit(0)


def _prepare(module: str) -> Functions:
    functions: Functions = importlib.import_module(module).SANDBOXED
    give_up_rights()
    return functions


def _answer_requests(talk: socket.socket, functions: Functions) -> None:
    while True:
        head, files, _, _ = socket.recv_fds(talk, HEAD.size, MOST_DESCRIPTORS)
        if not head:
            return
        request = receive_message(talk, MOST_REQUEST, None, head)
        # Who asks may have become somebody who cannot end this process.
        signal.alarm(math.ceil(request["seconds"]))
        try:
            answer = {"result": functions[request["function"]](*files, *request["values"])}
        except MemoryError:
            answer = {"refused": "it needs more memory than the sandbox allows"}
        except Exception as error:
            answer = {"refused": str(error).partition("\n")[0] or type(error).__name__}
        finally:
            for fd in files:
                with contextlib.suppress(OSError):  # a function may have closed it
                    os.close(fd)
        signal.alarm(0)
        _answer(talk, answer)


def _answer(talk: socket.socket, answer: dict[str, Any]) -> None:
    send_message(talk, {**answer, "cpu": time.process_time()})
