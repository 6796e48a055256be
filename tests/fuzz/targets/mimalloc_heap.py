"""The first 64 KiB of what may be one of mimalloc's segments, out of a target's memory."""

from test_mimalloc import LARGE, WHOLE, image

from dballoc.explain import mimalloc

OF = ("dballoc.explain.mimalloc",)
PRIVILEGED = True


def seeds() -> list[bytes]:
    return [bytes(image(segment, layout)) for segment in (WHOLE, LARGE) for layout in mimalloc.LAYOUTS]


def fuzz(data: bytes) -> None:
    head = data[: mimalloc.SLICE].ljust(mimalloc.SLICE, b"\0")
    for layout in mimalloc.LAYOUTS:
        segment = mimalloc.parse(head, layout)
        if segment:
            assert sum(page.slices for page in segment.pages) <= segment.slices
