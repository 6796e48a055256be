"""The first 64 KiB of what may be one of mimalloc's segments, out of a target's memory."""

from example_segments import LARGE, WHOLE, image

from dballoc.process.heaps import mimalloc_heap

OF = ("dballoc.process.heaps.mimalloc_heap",)
PRIVILEGED = True


def seeds() -> list[bytes]:
    return [
        bytes(image(segment, layout))
        for segment in (WHOLE, LARGE)
        for layout in mimalloc_heap.LAYOUTS
    ]


def fuzz(data: bytes) -> None:
    head = data[: mimalloc_heap.SLICE].ljust(mimalloc_heap.SLICE, b"\0")
    for layout in mimalloc_heap.LAYOUTS:
        segment = mimalloc_heap.parse_segment(head, layout)
        if segment:
            assert sum(page.slices for page in segment.pages) <= segment.slices
