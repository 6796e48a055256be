"""Ctrl-C: the first one ends a trial when it next looks, and is never forgotten."""

import pytest

from dballoc.campaign.interruptible_session import Stop
from dballoc.campaign.trial.server_in_trial import Interrupted


def test_what_is_lost_in_a_finalizer_stops_the_next_trial() -> None:
    stop = Stop()
    with pytest.raises(Interrupted):
        stop()
    assert stop.requested


def test_a_trial_is_interrupted_by_the_second_one() -> None:
    stop = Stop(in_trial=True)
    stop()
    assert stop.requested
    with pytest.raises(Interrupted):
        stop()
