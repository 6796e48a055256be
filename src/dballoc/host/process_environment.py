"""Parse the environment of a process, /proc/PID/environ. Pure."""

_TUNABLES, _PREFIX = "GLIBC_TUNABLES", "glibc."


def parse_environment(raw: bytes, errors: str = "surrogateescape") -> dict[str, str]:
    """Return the variables in the bytes of /proc/PID/environ; ``errors``: as in bytes.decode.

    glibc up to 2.36 ends each item of GLIBC_TUNABLES with a NUL where the colon was, in place
    (parse_tunables in elf/dl-tunables.c), so that all but the first look like variables of their
    own. They are joined again.
    """
    variables: dict[str, str] = {}
    previous = ""
    for item in raw.split(b"\0"):
        name, equals, value = item.decode(errors=errors).partition("=")
        if not equals:
            continue
        if previous == _TUNABLES and name.startswith(_PREFIX):
            variables[_TUNABLES] += f":{name}={value}"
            continue
        variables[name] = value
        previous = name
    return variables
