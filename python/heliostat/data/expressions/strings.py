"""The functions behind ``expr.str``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc

from heliostat.data.expressions.namespace import Namespace, one_of

if TYPE_CHECKING:
    from heliostat.data.expressions.expr import Expr


class Strings(Namespace):
    """Functions of strings. Further arguments are those of pyarrow's functions."""

    prefix = "str"

    def len(self) -> Expr:
        """Return the number of characters."""
        return self._call("len", pc.utf8_length)

    def byte_len(self) -> Expr:
        """Return the number of bytes, as UTF-8."""
        return self._call("byte_len", pc.binary_length)

    def upper(self) -> Expr:
        """Return the text in upper case."""
        return self._call("upper", pc.utf8_upper)

    def lower(self) -> Expr:
        """Return the text in lower case."""
        return self._call("lower", pc.utf8_lower)

    def capitalize(self) -> Expr:
        """Return the text with its first character in upper case and the others in lower case."""
        return self._call("capitalize", pc.utf8_capitalize)

    def title(self) -> Expr:
        """Return the text with each word's first character in upper case."""
        return self._call("title", pc.utf8_title)

    def swapcase(self) -> Expr:
        """Return the text with upper and lower case exchanged."""
        return self._call("swapcase", pc.utf8_swapcase)

    def reverse(self) -> Expr:
        """Return the characters in reverse order."""
        return self._call("reverse", pc.utf8_reverse)

    def is_alnum(self) -> Expr:
        """Return whether all characters are letters or digits."""
        return self._call("is_alnum", pc.utf8_is_alnum)

    def is_alpha(self) -> Expr:
        """Return whether all characters are letters."""
        return self._call("is_alpha", pc.utf8_is_alpha)

    def is_ascii(self) -> Expr:
        """Return whether all characters are ASCII."""
        return self._call("is_ascii", pc.string_is_ascii)

    def is_decimal(self) -> Expr:
        """Return whether all characters are decimal digits."""
        return self._call("is_decimal", pc.utf8_is_decimal)

    def is_digit(self) -> Expr:
        """Return whether all characters are digits."""
        return self._call("is_digit", pc.utf8_is_digit)

    def is_lower(self) -> Expr:
        """Return whether all letters are in lower case."""
        return self._call("is_lower", pc.utf8_is_lower)

    def is_numeric(self) -> Expr:
        """Return whether all characters are numeric."""
        return self._call("is_numeric", pc.utf8_is_numeric)

    def is_printable(self) -> Expr:
        """Return whether all characters can be printed."""
        return self._call("is_printable", pc.utf8_is_printable)

    def is_space(self) -> Expr:
        """Return whether all characters are white space."""
        return self._call("is_space", pc.utf8_is_space)

    def is_title(self) -> Expr:
        """Return whether each word begins in upper case."""
        return self._call("is_title", pc.utf8_is_title)

    def is_upper(self) -> Expr:
        """Return whether all letters are in upper case."""
        return self._call("is_upper", pc.utf8_is_upper)

    # --- patterns ---

    def starts_with(self, pattern: str, *args: object, **kwargs: object) -> Expr:
        """Return whether it begins with ``pattern``."""
        return self._call("starts_with", pc.starts_with, pattern, *args, **kwargs)

    def ends_with(self, pattern: str, *args: object, **kwargs: object) -> Expr:
        """Return whether it ends with ``pattern``."""
        return self._call("ends_with", pc.ends_with, pattern, *args, **kwargs)

    def contains(self, pattern: str, *args: object, **kwargs: object) -> Expr:
        """Return whether ``pattern`` is in it."""
        return self._call("contains", pc.match_substring, pattern, *args, **kwargs)

    def match(self, pattern: str, *args: object, **kwargs: object) -> Expr:
        """Return whether it matches an SQL pattern: ``%`` is any text, ``_`` one character."""
        return self._call("match", pc.match_like, pattern, *args, **kwargs)

    def match_regex(self, pattern: str, *args: object, **kwargs: object) -> Expr:
        """Return whether a regular expression matches a part of it."""
        return self._call("match_regex", pc.match_substring_regex, pattern, *args, **kwargs)

    def find(self, pattern: str, *args: object, **kwargs: object) -> Expr:
        """Return the byte at which ``pattern`` first occurs; -1: nowhere."""
        return self._call("find", pc.find_substring, pattern, *args, **kwargs)

    def find_regex(self, pattern: str, *args: object, **kwargs: object) -> Expr:
        """Return the byte at which a regular expression first matches; -1: nowhere."""
        return self._call("find_regex", pc.find_substring_regex, pattern, *args, **kwargs)

    def count(self, pattern: str, *args: object, **kwargs: object) -> Expr:
        """Return how often ``pattern`` occurs."""
        return self._call("count", pc.count_substring, pattern, *args, **kwargs)

    def count_regex(self, pattern: str, *args: object, **kwargs: object) -> Expr:
        """Return how often a regular expression matches."""
        return self._call("count_regex", pc.count_substring_regex, pattern, *args, **kwargs)

    def split(self, pattern: str, *args: object, **kwargs: object) -> Expr:
        """Return the parts between occurrences of ``pattern``, as a list."""
        return self._call("split", pc.split_pattern, pattern, *args, **kwargs)

    def split_regex(self, pattern: str, *args: object, **kwargs: object) -> Expr:
        """Return the parts between matches of a regular expression, as a list."""
        return self._call("split_regex", pc.split_pattern_regex, pattern, *args, **kwargs)

    def extract(self, pattern: str, *args: object, **kwargs: object) -> Expr:
        """Return the named groups of a regular expression, as a struct; null where it does not match."""
        return self._call("extract", pc.extract_regex, pattern, *args, **kwargs)

    def split_whitespace(self, *args: object, **kwargs: object) -> Expr:
        """Return the parts between white space, as a list."""
        return self._call("split_whitespace", pc.utf8_split_whitespace, *args, **kwargs)

    def replace(self, pattern: str, replacement: str, *args: object, **kwargs: object) -> Expr:
        """Return the text with each ``pattern`` replaced."""
        return self._call("replace", pc.replace_substring, pattern, replacement, *args, **kwargs)

    def replace_regex(
        self, pattern: str, replacement: str, *args: object, **kwargs: object
    ) -> Expr:
        """Return the text with each match of a regular expression replaced."""
        function = pc.replace_substring_regex
        return self._call("replace_regex", function, pattern, replacement, *args, **kwargs)

    # --- cutting and filling ---

    def slice(self, *args: object, **kwargs: object) -> Expr:
        """Return the characters from ``start`` up to ``stop``, every ``step``-th."""
        return self._call("slice", pc.utf8_slice_codeunits, *args, **kwargs)

    def replace_slice(
        self, start: int, stop: int, replacement: str, *args: object, **kwargs: object
    ) -> Expr:
        """Return the text with the characters from ``start`` up to ``stop`` replaced."""
        function = pc.utf8_replace_slice
        return self._call("replace_slice", function, start, stop, replacement, *args, **kwargs)

    def strip(self, characters: str | None = None) -> Expr:
        """Return the text without these characters at its ends; default: without white space."""
        return self._stripped("strip", "trim", characters)

    def lstrip(self, characters: str | None = None) -> Expr:
        """Return the text without these characters at its begin; default: without white space."""
        return self._stripped("lstrip", "ltrim", characters)

    def rstrip(self, characters: str | None = None) -> Expr:
        """Return the text without these characters at its end; default: without white space."""
        return self._stripped("rstrip", "rtrim", characters)

    def _stripped(self, name: str, function: str, characters: str | None) -> Expr:
        if characters is None:
            return self._call(name, getattr(pc, f"utf8_{function}_whitespace"))
        return self._call(name, getattr(pc, f"utf8_{function}"), characters)

    def pad(self, width: int, fillchar: str = " ", side: str = "right") -> Expr:
        """Return the text filled up to ``width`` characters on the "left", "right" or "both" sides."""
        one_of("side", side, ("left", "right", "both"))
        function = {"left": pc.utf8_lpad, "right": pc.utf8_rpad, "both": pc.utf8_center}[side]
        return self._call("pad", function, width, fillchar)

    def lpad(self, width: int, padding: str = " ", *args: object, **kwargs: object) -> Expr:
        """Return the text filled up to ``width`` characters at its begin."""
        return self._call("lpad", pc.utf8_lpad, width, padding, *args, **kwargs)

    def rpad(self, width: int, padding: str = " ", *args: object, **kwargs: object) -> Expr:
        """Return the text filled up to ``width`` characters at its end."""
        return self._call("rpad", pc.utf8_rpad, width, padding, *args, **kwargs)

    def center(self, width: int, padding: str = " ", *args: object, **kwargs: object) -> Expr:
        """Return the text filled up to ``width`` characters on both sides."""
        return self._call("center", pc.utf8_center, width, padding, *args, **kwargs)

    def repeat(self, n: int, *args: object, **kwargs: object) -> Expr:
        """Return the text ``n`` times in a row."""
        return self._call("repeat", pc.binary_repeat, n, *args, **kwargs)
