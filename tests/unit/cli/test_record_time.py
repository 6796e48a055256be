"""How long `record --for` records."""

import time
from types import SimpleNamespace

from dballoc.cli.verbs.record import _record_for


class SlowRecorder:
    """Takes a while to begin, as on a busy machine."""

    is_recording = False

    def start(self) -> None:
        time.sleep(0.3)
        self.is_recording, self.began = True, time.monotonic()

    def status(self) -> SimpleNamespace:
        return SimpleNamespace(is_recording=self.is_recording, ended_by="")

    def stop(self) -> None:
        self.is_recording, self.ended = False, time.monotonic()


def test_the_time_counts_from_when_it_has_begun() -> None:
    recorder = SlowRecorder()
    _record_for(recorder, 0.2)  # type: ignore[arg-type]
    assert recorder.ended - recorder.began >= 0.2
