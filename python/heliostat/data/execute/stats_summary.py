"""The figures of an execution as numbers, for programs: what ``Dataset.get_stats_summary`` gives."""

from __future__ import annotations

from dataclasses import dataclass, field

from heliostat.data.execute.stats import ExecutionStats, OperatorStats, Spread


@dataclass(frozen=True)
class StatsSummary:
    """Some figures."""

    min: float
    max: float
    mean: float
    sum: float
    count: int

    def to_dict(self) -> dict[str, float]:
        """The figures by name."""
        return dict(vars(self))


@dataclass(frozen=True)
class OperatorStatsSummary:
    """Summary of an operator. Times in seconds; None where it made no blocks.

    Attributes:
        time_total_s: From the begin of its first block to the end of its last.
        wall_time: Of its blocks.
        udf_time: Of its blocks, in the program's functions.
        output_num_rows: Of its blocks.
        node_count: Blocks of each node.
    """

    operator_name: str
    time_total_s: float
    wall_time: StatsSummary | None
    cpu_time: StatsSummary | None
    udf_time: StatsSummary | None
    total_input_num_rows: int
    output_num_rows: StatsSummary | None
    output_size_bytes: StatsSummary | None
    node_count: StatsSummary | None

    @property
    def num_rows_per_s(self) -> float:
        """Rows made in a second."""
        return _ratio(self.output_num_rows, self.time_total_s)

    @property
    def num_rows_per_task_s(self) -> float:
        """Rows that one task makes in a second."""
        return _ratio(self.output_num_rows, self.wall_time.sum if self.wall_time else 0.0)


@dataclass(frozen=True)
class DatasetStatsSummary:
    """Summary of an execution."""

    dataset_uuid: str
    base_name: str
    time_total_s: float
    operators_stats: list[OperatorStatsSummary]
    num_rows_per_s: float
    text: str = field(repr=False)

    def get_total_wall_time(self) -> float:
        """From the first block's begin to the last block's end."""
        return self.time_total_s

    def get_total_time_all_blocks(self) -> float:
        """The time of all blocks of all operators, one after the other."""
        return sum(one.wall_time.sum for one in self.operators_stats if one.wall_time)

    def get_total_cpu_time(self) -> float:
        """The CPU's time of all blocks."""
        return sum(one.cpu_time.sum for one in self.operators_stats if one.cpu_time)

    def to_string(self) -> str:
        """The figures in words, as in ``Dataset.stats``."""
        return self.text


def summary_of(stats: ExecutionStats | None, dataset_id: str, name: str) -> DatasetStatsSummary:
    """The figures of a dataset's last execution; none of one that was not executed."""
    made = stats.operators if stats is not None else []
    worked = [one for one in made if one.rows.count]
    taken_s = max(one.ended for one in worked) - min(one.begun for one in worked) if worked else 0.0
    rows = stats.rows if stats is not None else 0
    return DatasetStatsSummary(
        dataset_uuid=dataset_id,
        base_name=name,
        time_total_s=taken_s,
        operators_stats=[_operator(one) for one in made],
        num_rows_per_s=rows / taken_s if taken_s > 0 else 0.0,
        text=stats.text() if stats is not None else "",
    )


def _operator(stats: OperatorStats) -> OperatorStatsSummary:
    nodes = Spread()
    for blocks in stats.nodes.values():
        nodes.add(blocks)
    return OperatorStatsSummary(
        operator_name=stats.name,
        time_total_s=max(stats.ended - stats.begun, 0.0),
        wall_time=_figures(stats.wall),
        cpu_time=_figures(stats.cpu),
        udf_time=_figures(stats.udf),
        total_input_num_rows=stats.input_rows,
        output_num_rows=_figures(stats.rows),
        output_size_bytes=_figures(stats.bytes),
        node_count=_figures(nodes),
    )


def _figures(spread: Spread) -> StatsSummary | None:
    if not spread.count:
        return None
    return StatsSummary(spread.least, spread.most, spread.mean, spread.total, spread.count)


def _ratio(rows: StatsSummary | None, seconds: float) -> float:
    return rows.sum / seconds if rows is not None and seconds > 0 else 0.0
