"""Where a process of a block says what happens: its standard output, a message a line."""

import os
from typing import BinaryIO

from pydantic import BaseModel


class MessageStream:
    """Where the messages go."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def send(self, message: BaseModel) -> None:
        """Send one message. BrokenPipeError when nobody reads any more."""
        self._file.write(encode_message(message))
        self._file.flush()


def encode_message(message: BaseModel) -> bytes:
    """Return a message as a line."""
    return message.model_dump_json().encode() + b"\n"


def take_standard_output() -> MessageStream:
    """Return the stream of this process, on standard output, which is standard error from now on:
    what libraries and programs print must not come between the messages.
    """
    stream = MessageStream(os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)
    return stream
