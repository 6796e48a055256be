"""Read results of any kind into a document, and write all its outputs into one directory."""

from dataclasses import replace
from pathlib import Path

from dballoc.document import chart_files, html, markdown
from dballoc.document.csv import write_csv
from dballoc.document.json import dump_json
from dballoc.document.model import Document
from dballoc.ground.errors import Failure, UsageError
from dballoc.ground.files.output_directory import OutputDirectory
from dballoc.questions.campaign.answer.conditions_and_preference import LEAST_MEMORY, Preference
from dballoc.questions.campaign.figures import profiles
from dballoc.questions.campaign.figures.profiles import Profiles
from dballoc.questions.compare.campaign_tables import load_campaign
from dballoc.questions.fit.answer import gather_fit_report
from dballoc.questions.fit.figures import is_fit, load_fits
from dballoc.questions.published.post_figures import Published
from dballoc.questions.redact import redact_campaign
from dballoc.questions.report_content import gather_report
from dballoc.questions.tune.figures import load_tuned
from dballoc.questions.tune.search_history import is_search
from dballoc.questions.tune.sections import gather_tune_report

PAGE = "report.html"
# Files of a whole document, each with what renders it; the page last, for it names the others.
FORMS = {"report.md": markdown.render_markdown, PAGE: html.render_html}


def gather_document(
    directory: Path,
    redact: bool = False,
    preference: Preference = LEAST_MEMORY,
    published: Published | None = None,
) -> Document:
    """Return all that a results directory says. ``published``: the post to set beside. Raises
    UsageError if there is no trial, or not what ``preference`` asks for.
    """
    if is_fit(directory):
        fits = load_fits(directory)
        return gather_fit_report(
            replace(fits, campaign=redact_campaign(fits.campaign)) if redact else fits
        )
    if is_search(directory):
        tuned = load_tuned(directory)
        if redact:
            tuned = replace(tuned, campaign=redact_campaign(tuned.campaign), directory=Path("DIR"))
        return gather_tune_report(tuned)
    campaign = load_campaign(directory)
    if not campaign.trials.height:
        raise UsageError(f"{directory}: no trial is finished yet; run dballoc bench first")
    recorded: Profiles = profiles.load_contention(directory, campaign)
    recorded = recorded or profiles.load_heap_profiles(directory, campaign)
    shown = redact_campaign(campaign) if redact else campaign
    if campaign.imported:
        # The names of machines in it are those that the report shows.
        recorded = profiles.load_imported_profiles(directory, shown)
    return gather_report(
        shown, preference, published, recorded, directory=None if redact else directory
    )


def write_document(document: Document, out: Path, redact: bool = False) -> Path:
    """Write ``charts/``, ``csv/``, the document's JSON and its :data:`FORMS` into ``out``.
    ``redact``: whether names were replaced. Returns the page's path. Raises Failure if a file
    cannot be written.
    """
    try:
        with (
            OutputDirectory.open(out) as top,
            top.open_subdirectory("charts") as charts,
            top.open_subdirectory("csv") as csv_files,
        ):
            for figure in document.figures:
                chart_files.write_chart(figure, document.subtitle, charts)
            for embed in document.embeds:
                charts.write(f"{embed.key}.html", embed.page)
            for name, table in document.csv().items():
                write_csv(name, table, csv_files)
            top.write(f"{document.data_name}.json", dump_json(document.data))
            for name, render in FORMS.items():
                top.write(name, render(document, redact))
    except OSError as error:
        raise Failure(
            f"{error.filename or out}: the report cannot be written: {error.strerror}"
        ) from None
    return out / PAGE


def write_report_outputs(
    directory: Path,
    out: Path | None = None,
    redact: bool = False,
    preference: Preference = LEAST_MEMORY,
    published: Published | None = None,
) -> Path:
    """Write all outputs of a results directory into ``out``, or into the directory itself; returns
    the page's path. Raises as :func:`gather_document` and :func:`write_document`.
    """
    document = gather_document(directory, redact, preference, published)
    return write_document(document, out or directory, redact)
