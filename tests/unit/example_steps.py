"""Steps of trials that nobody ran: samples, intervals and what the host did."""

from dballoc.campaign.trial.trial_rows import StepMeasurements
from dballoc.experiment.trial_steps import Step
from dballoc.instruments.process_sampler import ProcessSample
from dballoc.load.client_output import IntervalReport, Total

LEVEL = Step(number=3, kind="level", seconds=4.0, workload="oltp_read_only", threads=8)


IDLE = Step(number=4, kind="idle", seconds=4.0)


def sample(clock: float, cpu: float = 0.0, rss: int = 100, voluntary: int = 0) -> ProcessSample:
    return ProcessSample(
        clock=clock,
        rss=rss,
        peak=rss,
        vsz=1000,
        accessible=900,
        swap=0,
        cpu=cpu,
        cpu_user=cpu * 0.75,
        cpu_system=cpu * 0.25,
        minor_faults=int(cpu * 10),
        major_faults=0,
        threads=4,
        voluntary=voluntary,
        involuntary=0,
    )


def interval(clock: float, events: int) -> IntervalReport:
    return IntervalReport(
        clock=clock,
        elapsed=clock,
        seconds=1.0,
        threads=8,
        events=events,
        queries=events * 16,
        latency=0.002,
        errors=0,
        reconnects=0,
    )


def gathered(
    step: Step = LEVEL,
    intervals: tuple[IntervalReport, ...] = (),
    total: Total | None = None,
    **more,
) -> StepMeasurements:
    samples = more.pop(
        "samples", (sample(10.0), sample(12.0, 4.0, 300, 50), sample(15.0, 7.0, 200, 80))
    )
    return StepMeasurements(
        step=step,
        started=10.0,
        ended=15.0,
        samples=list(samples),
        intervals=list(intervals),
        total=total,
        histogram=more.pop("histogram", ()),
        rss_peak=310,
        **more,
    )
