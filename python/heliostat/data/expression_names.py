"""The functions behind ``expr.str``, ``expr.list``, ``expr.dt`` and ``expr.struct``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow.compute as pc

_FUNCTIONS: dict[str, dict[str, Callable[..., Any]]] = {
    "str": {
        "len": pc.utf8_length,
        "upper": pc.utf8_upper,
        "lower": pc.utf8_lower,
        "capitalize": pc.utf8_capitalize,
        "title": pc.utf8_title,
        "reverse": pc.utf8_reverse,
        "strip": lambda v, c=None: pc.utf8_trim(v, c) if c else pc.utf8_trim_whitespace(v),
        "lstrip": lambda v, c=None: pc.utf8_ltrim(v, c) if c else pc.utf8_ltrim_whitespace(v),
        "rstrip": lambda v, c=None: pc.utf8_rtrim(v, c) if c else pc.utf8_rtrim_whitespace(v),
        "starts_with": pc.starts_with,
        "ends_with": pc.ends_with,
        "contains": pc.match_substring,
        "match": pc.match_like,
        "match_regex": pc.match_substring_regex,
        "find": pc.find_substring,
        "count": pc.count_substring,
        "replace": pc.replace_substring,
        "replace_regex": pc.replace_substring_regex,
        "slice": pc.utf8_slice_codeunits,
        "split": pc.split_pattern,
    },
    "list": {
        "len": pc.list_value_length,
        "get": pc.list_element,
        "slice": pc.list_slice,
        "flatten": pc.list_flatten,
    },
    "dt": {
        "year": pc.year,
        "month": pc.month,
        "day": pc.day,
        "hour": pc.hour,
        "minute": pc.minute,
        "second": pc.second,
        "day_of_week": pc.day_of_week,
        "strftime": pc.strftime,
    },
    "struct": {"field": pc.struct_field},
}


class Namespace:
    """Functions of one kind of values, called as methods of an expression."""

    def __init__(self, expression: Any, kind: str) -> None:
        self._expression, self._kind = expression, kind

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function = _FUNCTIONS[self._kind].get(name)
        if function is None or name.startswith("__"):
            raise AttributeError(f".{self._kind} has no {name!r}; there are {dir(self)}")

        def call(*args: Any, **kwargs: Any) -> Any:
            said = ", ".join([*map(repr, args), *(f"{k}={v!r}" for k, v in kwargs.items())])
            return self._expression._call(
                lambda values: function(values, *args, **kwargs), f"{self._kind}.{name}({said})"
            )

        return call

    def __getitem__(self, key: Any) -> Any:
        return self.field(key) if self._kind == "struct" else self.get(key)

    def __dir__(self) -> list[str]:
        return sorted(_FUNCTIONS[self._kind])
