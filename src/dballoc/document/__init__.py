"""One document, and one renderer for each form of it.

:mod:`~dballoc.document.model` declares what a document consists of: an answer, sections, figures,
tables. A table is declared once, as columns, and :func:`~dballoc.document.model.tabulate` makes its
cells. Each form is one module with the form's name: ``html``, ``markdown``, ``terminal``, ``csv``
and ``json``. No form makes a sentence or a figure of its own.
"""
