"""All outputs of one report into one directory."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
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
from dballoc.errors import Failure, UsageError
from dballoc.report import fit_report
from dballoc.report.charts import export
from dballoc.report.hosts import hosts_answer, hosts_csv, hosts_report
from dballoc.report.outputs import csv, html, markdown, recommendation_json
from dballoc.report.outputs.page import Page
from dballoc.report.report_content import gather_report
from dballoc.report.tune import tune_report
from dballoc.report.wording.redact import redact_campaign as redacted

PAGE = "report.html"


def write_fit_report(directory: Path, out: Path, redact: bool) -> Path:
    """Write all outputs of a fit. UsageError if there is no trial, Failure if they cannot be
    written.
    """
    fits = load_fit(directory)
    if redact:
        fits = replace(fits, campaign=redacted(fits.campaign))
    page = fit_report.gather_fit_report(fits)

    def tables() -> None:
        fit_report.write_fit_csv(fits, out / "csv")
        (out / "fit.json").write_text(fit_report.dump_fit(fits), encoding="utf-8")

    return _write_outputs(page, out, redact, tables)


def write_tune_report(directory: Path, out: Path, redact: bool) -> Path:
    """Write all outputs of a search and its confirmation. UsageError if there is no trial, Failure
    if they cannot be written.
    """
    tuned = load_tuned(directory)
    if redact:
        tuned = replace(tuned, campaign=redacted(tuned.campaign), directory=Path("DIR"))
    page = tune_report.gather_tune_report(tuned)

    def tables() -> None:
        tune_report.write_tune_csv(tuned, out / "csv")
        (out / "tune.json").write_text(tune_report.dump_tune(tuned), encoding="utf-8")

    return _write_outputs(page, out, redact, tables)


def write_hosts_report(
    pool: HostPool, figures: Sequence[FigureOverHosts], out: Path, redact: bool
) -> Path:
    """Write all outputs of several hosts' campaigns; ``redact``: whether the names in them were
    replaced. Failure if they cannot be written.
    """

    def tables() -> None:
        hosts_csv.write_hosts_csv(figures, out / "csv" / "hosts.csv")
        document = json.dumps(hosts_answer.describe_verdicts(pool, figures), indent=1)
        (out / "combined.json").write_text(document + "\n", encoding="utf-8")

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

    def tables() -> None:
        csv.write_csv(content.campaign, content.comparisons, out / "csv", published, profiles)
        (out / "recommendation.json").write_text(
            recommendation_json.dump_recommendation(content), encoding="utf-8"
        )

    return _write_outputs(content, out, redact, tables)


def _write_outputs(content: Page, out: Path, redact: bool, tables: Callable[[], None]) -> Path:
    try:
        charts = out / "charts"
        charts.mkdir(parents=True, exist_ok=True)
        for figure in content.figures:
            export.write_chart(figure, content.subtitle, charts)
        for embed in content.embeds:
            (charts / f"{embed.key}.html").write_text(embed.page, encoding="utf-8")
        tables()
        (out / "report.md").write_text(markdown.render_markdown(content, redact), encoding="utf-8")
        page = out / PAGE
        page.write_text(html.render_html(content, redact), encoding="utf-8")
    except OSError as error:
        raise Failure(
            f"{error.filename or out}: the report cannot be written: {error.strerror}"
        ) from None
    return page
