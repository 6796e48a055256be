"""Text of any origin stays text in HTML, in Markdown and in scripts."""

import json

import pytest

from dballoc.document import markdown, page
from dballoc.document.markdown import escape_markdown
from dballoc.document.model import Answer, Document, Section, Table
from dballoc.questions.report_content import Listing
from dballoc.questions.write_report import FORMS

HOSTILE = "</script><script>alert(1)</script><!-- | `x` \u2028 *b* [l](javascript:1)"


def test_json_in_a_script_element_cannot_end_it_and_reads_back() -> None:
    text = page.encode_json_for_script({"log": HOSTILE})
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == {"log": HOSTILE}


def test_markdown_cells() -> None:
    assert escape_markdown("a|b") == "a\\|b"
    assert escape_markdown("<b>&") == "&lt;b&gt;&amp;"
    assert escape_markdown("two\nlines  here") == "two lines here"
    assert (
        escape_markdown("[l](x) *b* `c` a_b ~s~ #h")
        == "\\[l\\](x) \\*b\\* \\`c\\` a\\_b \\~s\\~ \\#h"
    )


def test_a_fence_is_longer_than_any_within() -> None:
    text = markdown._render_listing(Listing("log", "before\n````\nafter\n"))
    assert text.endswith("`````text\nbefore\n````\nafter\n`````")


@pytest.mark.parametrize("form", FORMS)
def test_a_form_has_all_of_a_document_and_no_markup_of_its_own(form: str) -> None:
    table = Table(title="Peaks", columns=["variant", "RSS"], rows=[["glibc", "512"]], caption="MiB")
    document = Document(
        title="Which malloc",
        subtitle="two variants",
        names=["glibc"],
        answer=Answer(
            headline="Keep glibc",
            reason="nothing is shown",
            command="dballoc bench --extend 9m",
            table=table,
            notes=[HOSTILE],
        ),
        sections=[
            Section(
                key="memory",
                title="Memory",
                text=["At rest."],
                tables=[table],
                listings=[Listing("log", "mmap failed")],
            )
        ],
    )
    text = FORMS[form](document, True)
    parts = (
        "Which malloc|two variants|Keep glibc|nothing is shown|Memory|At rest.|Peaks|glibc|512|MiB"
        "|dballoc bench --extend 9m|mmap failed"
    )
    assert [part for part in parts.split("|") if part not in text] == []
    assert "were replaced" in text
    assert "<script>alert" not in text
