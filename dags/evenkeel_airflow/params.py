"""The Params of a table's DAGs: what a person may ask of one run."""

from __future__ import annotations

from airflow.sdk import Param

from evenkeel.spec.table_spec import PRODUCTION, TableSpec

AIM, SAFETY = "Aim", "Limits"
WINDOW_END = Param(
    None,
    type=["null", "string"],
    format="date",
    title="Window end",
    description="Learn from the window that ends before this day. Default: the newest input.",
    section=AIM,
)

RELEARN = Param(
    False,
    type="boolean",
    title="Relearn",
    description="Sketch every day of the window again, instead of using the stored sketches. "
    "Use it after late rows.",
    section=AIM,
)


def rebalance_params(spec: TableSpec) -> dict[str, Param]:
    """Return the Params of a rebalance; an empty one takes the spec's value."""
    return {
        **_aim_params(spec),
        "window_end": WINDOW_END,
        "relearn": RELEARN,
        **_safety_params(spec),
    }


def _aim_params(spec: TableSpec) -> dict[str, Param]:
    """Return the Params of the function that a rebalance plans."""
    return {
        "strategy": Param(
            None,
            type=["null", "string"],
            enum=[None, *PRODUCTION],
            title="Strategy",
            description=f"Strategy that builds the next function. Default: {spec.strategy}.",
            section=AIM,
        ),
        "channels": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            maximum=100_000,
            title="Channels",
            description="Number of channels. A lower number drops the last ones, a higher one adds "
            "some. It holds until the spec's list is edited. Default: as now, or as in the spec.",
            section=AIM,
        ),
        "capacities": Param(
            None,
            type=["null", "array"],
            items={"type": "number", "minimum": 0},
            contains={"exclusiveMinimum": 0},
            title="Capacities",
            description="Capacity weight of each channel, in order; 0 drains a channel. It holds "
            "until the spec's list is edited. Default: as now, or as in the spec.",
            section=AIM,
        ),
        "max_imbalance": Param(
            None,
            type=["null", "number"],
            minimum=1,
            title="Max imbalance",
            description="Stop adding moves at this imbalance; 1 is perfect, none is as even as "
            "possible. "
            f"Default: {'none' if spec.max_imbalance is None else f'{spec.max_imbalance:g}'}.",
            section=AIM,
        ),
    }


def _safety_params(spec: TableSpec) -> dict[str, Param]:
    """Return the Params of what a migration may do at most."""
    return {
        "budget": Param(
            None,
            type=["null", "integer"],
            minimum=0,
            title="Budget in bytes",
            description="Bytes of state that may move, at most. "
            f"Default: {'no limit' if spec.budget is None else spec.budget}.",
            section=SAFETY,
        ),
        **{
            name: Param(
                None,
                type=["null", "integer"],
                minimum=1,
                title=title,
                description=f"{what} Default: {'no limit' if limit is None else limit}.",
                section=SAFETY,
            )
            for name, title, what, limit in (
                ("batch", "Bytes per commit", "Bytes of state that one commit moves.", spec.batch),
                (
                    "batch_files",
                    "Files per commit",
                    "Files that one commit writes.",
                    spec.batch_files,
                ),
                ("rate", "Bytes per second", "Bytes of state moved per second.", spec.rate),
                ("rate_rows", "Rows per second", "Rows of state moved per second.", spec.rate_rows),
            )
        },
        "dry_run": Param(
            False,
            type="boolean",
            title="Dry run",
            description="Plan, check and report; move nothing.",
            section=SAFETY,
        ),
        "force": Param(
            False,
            type="boolean",
            title="Force",
            description="Plan even if the rebalance does not pay off.",
            section=SAFETY,
        ),
    }
