"""Figures in CSV, for ``dballoc import``, as far as an experiment and its trials."""

from dballoc.experiment import experiment_file
from dballoc.ground import readers
from dballoc.ground.errors import UsageError
from dballoc.intake import csv_figures, foreign_kinds
from dballoc.intake.assemble_campaign import assemble_campaign
from dballoc.intake.imported_figure import check_figures

OF = (
    "dballoc.intake.csv_figures",
    "dballoc.intake.delimited_text",
    "dballoc.intake.assemble_campaign",
)
PRIVILEGED = False

_GOOD = b"""workload,threads,variant,tps,block,qps,p95_ms,rss_mib,seconds,machine
oltp_read_only,8,glibc,1234.5,1,19752,7.4,812.25,60,a
oltp_read_only,8,jemalloc,1301,1,20816,7.1,655,60,a
"oltp, read only",16,jemalloc,1301,2,20816,7.1,655,60,b
oltp_read_only,8,glibc,1244.5,2,19752,7.4,812.25,60,b
"""


def seeds() -> list[bytes]:
    return [
        _GOOD,
        b"\xef\xbb\xbf" + _GOOD.replace(b"\n", b"\r\n"),
        b"workload,threads,variant,tps\na,1,b,2\n",
        '#TYPE x\n"workload";"threads";"variant";"tps"\n"a";"1";"b";"2,5"\n'.encode("utf-16"),
    ]


def fuzz(data: bytes) -> None:
    try:
        text = foreign_kinds.decode_text(data)
    except readers.Unfit:
        return
    try:
        figures = csv_figures.parse_figures(text, "f.csv")
        check_figures(figures)
        experiment_file.format_experiment(
            assemble_campaign(figures, "out", None).experiment
        ).encode()
    except UsageError as error:
        assert "\n" not in str(error), error
