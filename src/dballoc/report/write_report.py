"""All outputs of one report into one directory."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dballoc.analysis.campaign_tables import Campaign, load_campaign
from dballoc.analysis.decisions.preference import Preference
from dballoc.analysis.hosts.host_pool import HostPool
from dballoc.analysis.hosts.verdicts_over_hosts import FigureOverHosts
from dballoc.analysis.published.published_figures import Published
from dballoc.analysis.tables.largest_cache import load_fits as load_fit
from dballoc.analysis.tables.profiles import contention, heap_profiles, imported_profiles
from dballoc.analysis.tables.profiles.contention import Contention
from dballoc.analysis.tables.profiles.heap_profiles import Heaps
from dballoc.analysis.tables.profiles.imported_profiles import ImportedProfiles
from dballoc.analysis.tune.tuned import load_tuned
from dballoc.document import chart_files, html, markdown
from dballoc.document.csv import format_csv
from dballoc.document.json import dump_json
from dballoc.document.model import Document
from dballoc.errors import Failure, UsageError
from dballoc.files.output_directory import OutputDirectory
from dballoc.report import fit_report
from dballoc.report.hosts import hosts_answer, hosts_report
from dballoc.report.outputs import csv, recommendation_json
from dballoc.report.report_content import gather_report
from dballoc.report.tune import tune_report
from dballoc.report.wording.redact import redact_campaign as redacted

PAGE = "report.html"


@dataclass(frozen=True, kw_only=True)
class _Outputs:
    """Where the outputs of a report go.

    top: ``--out``
    csv: its ``csv/``
    """

    top: OutputDirectory
    csv: OutputDirectory


def write_fit_report(directory: Path, out: Path, redact: bool) -> Path:
    """Write all outputs of a fit. UsageError if there is no trial, Failure if they cannot be
    written.
    """
    fits = load_fit(directory)
    if redact:
        fits = replace(fits, campaign=redacted(fits.campaign))
    page = fit_report.gather_fit_report(fits)

    def tables(outputs: _Outputs) -> None:
        fit_report.write_fit_csv(fits, outputs.csv)
        outputs.top.write("fit.json", fit_report.dump_fit(fits))

    return _write_outputs(page, out, redact, tables)


def write_tune_report(directory: Path, out: Path, redact: bool) -> Path:
    """Write all outputs of a search and its confirmation. UsageError if there is no trial, Failure
    if they cannot be written.
    """
    tuned = load_tuned(directory)
    if redact:
        tuned = replace(tuned, campaign=redacted(tuned.campaign), directory=Path("DIR"))
    page = tune_report.gather_tune_report(tuned)

    def tables(outputs: _Outputs) -> None:
        tune_report.write_tune_csv(tuned, outputs.csv)
        outputs.top.write("tune.json", tune_report.dump_tune(tuned))

    return _write_outputs(page, out, redact, tables)


def write_hosts_report(
    pool: HostPool, figures: Sequence[FigureOverHosts], out: Path, redact: bool
) -> Path:
    """Write all outputs of several hosts' campaigns; ``redact``: whether the names in them were
    replaced. Failure if they cannot be written.
    """

    def tables(outputs: _Outputs) -> None:
        outputs.csv.write("hosts.csv", format_csv(hosts_report.list_csv_rows(figures)))
        outputs.top.write("combined.json", dump_json(hosts_answer.describe_verdicts(pool, figures)))

    return _write_outputs(hosts_report.gather_hosts_report(pool, figures), out, redact, tables)


def read_campaign(directory: Path) -> Campaign:
    """Read a campaign that has something to report. UsageError if it has not."""
    campaign = load_campaign(directory)
    if not campaign.trials.height:
        raise UsageError(f"{directory}: no trial is finished yet; run dballoc bench first")
    return campaign


def write_campaign_report(
    directory: Path, out: Path, redact: bool, preference: Preference, published: Published | None
) -> Path:
    """Write all outputs; the page comes last, so that the files it names are there. UsageError,
    Failure.
    """
    campaign = read_campaign(directory)
    profiles: Contention | Heaps | ImportedProfiles | None = contention.load_contention(
        directory, campaign
    ) or heap_profiles.load_heap_profiles(directory, campaign)
    shown = redacted(campaign) if redact else campaign
    if campaign.imported:
        # The names of machines in it are those that the report shows.
        profiles = imported_profiles.load_imported_profiles(directory, shown)
    content = gather_report(
        shown,
        preference,
        published,
        profiles,
        directory=None if redact else directory,
    )

    def tables(outputs: _Outputs) -> None:
        csv.write_csv(content.campaign, content.comparisons, outputs.csv, published, profiles)
        outputs.top.write("recommendation.json", recommendation_json.dump_recommendation(content))

    return _write_outputs(content, out, redact, tables)


def _write_outputs(
    content: Document, out: Path, redact: bool, tables: Callable[[_Outputs], None]
) -> Path:
    try:
        with (
            OutputDirectory.open(out) as top,
            top.open_subdirectory("charts") as charts,
            top.open_subdirectory("csv") as csv_files,
        ):
            for figure in content.figures:
                chart_files.write_chart(figure, content.subtitle, charts)
            for embed in content.embeds:
                charts.write(f"{embed.key}.html", embed.page)
            tables(_Outputs(top=top, csv=csv_files))
            top.write("report.md", markdown.render_markdown(content, redact))
            top.write(PAGE, html.render_html(content, redact))
    except OSError as error:
        raise Failure(
            f"{error.filename or out}: the report cannot be written: {error.strerror}"
        ) from None
    return out / PAGE
