"""Ask the server itself, before anything is started, whether it knows its options and can read
them.
"""

import re

from dballoc.ground.errors import UsageError
from dballoc.host.unprivileged.run_unprivileged import Unanswered, run_unprivileged
from dballoc.host.unprivileged.server_user import ServerUser
from dballoc.servers.build import Build
from dballoc.servers.print_defaults import complaint
from dballoc.servers.private.command_line import arguments

# MySQL before 8.0.16 has no --validate-config. Under --help other things can fail that do not at a
# real start (a missing data directory).
_REFUSAL = re.compile(
    r"unknown (variable|option|suffix|locale|collation|character set)|ambiguous option"
    r"|(while setting|wrong|invalid) value|requires an argument|doesn't take an argument",
    re.IGNORECASE,
)


def check(build: Build, options: dict[str, str], user: ServerUser, where: str) -> None:
    """Check that the server accepts these options, which takes it about 50 ms. Raises UsageError
    with the server's message if not.
    """
    # Plugins have options of their own, and the server reads its messages from its share directory.
    places = [
        f"--lc-messages-dir={build.share}",
        *([f"--plugin-dir={build.plugins}"] if build.plugins else []),
    ]
    try:
        answer = run_unprivileged(
            [
                build.executable,
                "--no-defaults",
                *places,
                # Those of every start: MySQL ends before it looks at the options if the directory
                # of its own secure_file_priv is not there.
                *arguments(build.entry.options),
                *arguments(options),
                *build.entry.validate,
            ],
            user=user,
        )
    except Unanswered:
        return  # the trial will tell
    refusals = "\n".join(
        line
        for line in answer.stderr.splitlines()
        if _REFUSAL.search(line) and "validate-config" not in line
    )
    if answer.status != 0 and refusals:
        raise UsageError(f"{where}: {build.title} refuses its options: {complaint(refusals)}")
