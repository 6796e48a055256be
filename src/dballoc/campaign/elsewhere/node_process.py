"""A process of a block on a host: it reads what it is asked, works, and says how that ended.

The request is read from one descriptor; from the other come lines while it works. Standard input is
the lease (a stamp at least every few seconds, see :mod:`dballoc.host.guardian.guardian`); messages
go to standard output.
"""

import contextlib
import os
import sys
from collections.abc import Callable
from typing import TypeVar

import dballoc
from dballoc.campaign.elsewhere.block_messages import BlockRefused
from dballoc.campaign.elsewhere.client.load_messages import HostRequest
from dballoc.campaign.elsewhere.client.pipe_lines import PipeLines
from dballoc.campaign.elsewhere.client.remote_load import ClientHostFailed
from dballoc.campaign.elsewhere.message_stream import MessageStream, take_standard_output
from dballoc.ground import readers
from dballoc.ground.errors import Failure, NotNow, UsageError
from dballoc.host.guardian.guardian_client import GuardianEnded, Lease

_LEASE = 0
# The most bytes of a request: the experiment and the files of own workloads are nearly all of it.
_LARGEST_REQUEST = 5 * readers.MIB

RequestT = TypeVar("RequestT", bound=HostRequest)


def open_lease(request: HostRequest) -> Lease:
    """Return the lease of this process. Raises UsageError if another version of dballoc asks."""
    if request.dballoc != dballoc.__version__:
        raise UsageError(f"dballoc {dballoc.__version__} here, {request.dballoc} on the driver")
    # Another number: standard input of a guardian is something else.
    return Lease(os.dup(_LEASE), request.lease)


def make_refusal(error: Exception) -> BlockRefused:
    """Return the last word of a host that cannot run the block, or not finish it. Pure."""
    return BlockRefused(
        text=str(error),
        blames_client=isinstance(error, ClientHostFailed),
        is_passing=isinstance(error, NotNow | Failure),
    )


def run_process(
    request_type: type[RequestT], work: Callable[[RequestT, MessageStream, PipeLines], None]
) -> int:
    """Read the request, do the work, and send how it ended. Returns the exit status."""
    request_descriptor, lines_descriptor = map(int, sys.argv[1:3])
    with os.fdopen(request_descriptor, "rb") as file:
        text = file.read(_LARGEST_REQUEST + 1)
    stream = take_standard_output()
    try:
        if len(text) > _LARGEST_REQUEST:
            raise readers.Unfit("the request is too large")
        work(request_type.parse(text), stream, PipeLines(lines_descriptor))
    except GuardianEnded as error:
        # It may be for once, and its end is reported.
        print(error, file=sys.stderr)
        return 1
    except (UsageError, Failure, readers.Unfit) as error:
        with contextlib.suppress(BrokenPipeError):  # the driver is gone: nobody to tell
            stream.send(make_refusal(error))
        return 1
    except BrokenPipeError:
        return 1
    return 0
