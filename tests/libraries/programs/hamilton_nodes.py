"""A module of functions, the nodes of Hamilton's graph."""

import pandas as pd


def raised(x: pd.Series) -> pd.Series:
    return x + 1


def doubled(raised: pd.Series) -> pd.Series:
    return raised * 2


def total(doubled: pd.Series) -> int:
    return int(doubled.sum())
