"""What every process of a block does: it reads one request, and says what happens on its standard
output, a message a line.
"""

import contextlib
import os
import sys
from collections.abc import Callable
from typing import BinaryIO, TypeVar

from pydantic import BaseModel

from dballoc import readers
from dballoc.errors import Failure, UsageError
from dballoc.hosts.block_messages import Refused
from dballoc.hosts.client.pipe_lines import PipeLines

Request = TypeVar("Request")


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


def answer_request(
    parse: Callable[[bytes], Request],
    answer: Callable[[Request, MessageStream, PipeLines], None],
    most: int,
) -> int:
    """Read the request from the first descriptor of the command line, ``most`` bytes at most, and
    answer it; the second has what is asked later. Sends why, if it is refused. Returns the exit
    status.
    """
    request_descriptor, lines_descriptor = map(int, sys.argv[1:3])
    with os.fdopen(request_descriptor, "rb") as file:
        text = file.read(most + 1)
    stream = take_standard_output()
    try:
        if len(text) > most:
            raise readers.Unfit("the request is too large")
        answer(parse(text), stream, PipeLines(lines_descriptor))
    except (UsageError, Failure, readers.Unfit) as error:
        with contextlib.suppress(BrokenPipeError):  # the driver is gone: nobody to tell
            stream.send(Refused(text=str(error)))
        return 1
    except BrokenPipeError:
        return 1
    return 0
