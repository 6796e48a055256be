"""Whether the connections of the load were encrypted, as the servers counted them. Pure."""

from dataclasses import dataclass

import polars as pl

from dballoc.questions.compare.campaign_tables import Campaign


@dataclass(frozen=True, kw_only=True)
class VariantConnections:
    """The connections that clients made to a variant's servers in all its trials, and how many of
    them were encrypted. ``tls``: the versions of TLS that the servers offered, sorted.
    """

    made: int
    encrypted: int
    tls: tuple[str, ...]

    @property
    def words(self) -> str:
        """Whether they were encrypted."""
        if self.encrypted == 0:
            return "not encrypted"
        return "encrypted" if self.encrypted >= self.made else "partly encrypted"


def asks_for_tls(campaign: Campaign) -> bool:
    """Whether the experiment asks for encrypted connections to any server."""
    experiment = campaign.experiment
    return any(experiment.server_of(v).connect == "tls" for v in experiment.variant)


def count_client_connections(campaign: Campaign) -> dict[str, VariantConnections]:
    """Return a campaign's connections by variant, in its order; variants without any, or without a
    count, are left out.
    """
    trials = campaign.trials.select("trial", "variant")
    rows = campaign.client_connection.join(trials, on="trial", how="inner")
    sums = {
        row["variant"]: row
        for row in rows.group_by("variant")
        .agg(pl.col("made").sum(), pl.col("encrypted").sum(), pl.col("tls").unique())
        .iter_rows(named=True)
    }
    return {
        name: VariantConnections(
            made=sums[name]["made"],
            encrypted=sums[name]["encrypted"],
            tls=tuple(sorted({v for text in sums[name]["tls"] for v in text.split(",") if v})),
        )
        for name in campaign.names
        if name in sums and sums[name]["made"] > 0
    }
