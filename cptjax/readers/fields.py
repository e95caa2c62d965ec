"""Strict reading of one table of a manifest (or one JSON object): every key known, every value of its type.

Nothing is converted and nothing guessed: a boolean is no number, ``5e3`` is no count of steps, a misspelt key is an
error that names the key that was probably meant.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from cptjax.errors import InputError
from cptjax.readers.places import Place, meant, shown

__all__ = ["MOST_STEPS", "Fields"]

MOST_STEPS = 20_000_000
"""Steps that a phase or a table may have: a schedule holds one LR for each in memory."""

_REQUIRED: Any = object()
T = TypeVar("T")


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _is_rate(value: object) -> bool:
    return _is_number(value) and value >= 0  # pyright: ignore[reportOperatorIssue]


class Fields:
    """The keys of one table. Each method returns the checked value of a key; without a default the key is required.

    Args:
        data: what the file holds there.
        place: where that is.
        what: what the table is called in messages.

    Raises:
        InputError: ``data`` is no table; in the methods: a key is missing or its value is not what it must be.
    """

    def __init__(self, data: object, place: Place, what: str) -> None:
        if not isinstance(data, dict):
            raise place.error(f"{what} is {shown(data)}", "give a table of keys")
        self.data: dict[str, Any] = data
        self.place = place
        self.what = what

    def check_known(self, keys: Iterable[str]) -> None:
        """Every key of the table must be one of ``keys``."""
        keys = tuple(keys)
        for key in self.data:
            if key not in keys:
                raise self.place.error(f"unknown key {key!r} in {self.what}", meant(key, keys, "the keys"))

    def take(self, key: str, wanted: str, accept: Callable[[Any], bool], default: Any = _REQUIRED) -> Any:
        """The value of ``key``, which ``accept`` must hold for; ``wanted`` says in words what that means."""
        if key not in self.data:
            if default is _REQUIRED:
                raise self.place.error(f"{self.what} has no {key!r}", f"give {wanted}")
            return default
        if not accept(self.data[key]):
            raise self.refusal(key, f"give {wanted}")
        return self.data[key]

    def refusal(self, key: str, cure: str) -> InputError:
        """The error that says that the value of ``key`` will not do."""
        return self.place.error(f"{key!r} in {self.what} is {shown(self.data[key])}", cure)

    def text(self, key: str, default: str = _REQUIRED) -> str:
        """A text that is not blank."""
        return self.take(key, "a text in quotes", lambda v: isinstance(v, str) and bool(v.strip()), default)

    def choice(self, key: str, options: Sequence[str], default: str = _REQUIRED) -> str:
        """One of ``options``."""
        value = self.take(key, f"one of {', '.join(map(repr, options))}", lambda v: isinstance(v, str), default)
        if value not in options:
            raise self.refusal(key, meant(value, options, "the choices"))
        return value

    def integer(self, key: str, low: int, high: int | None = None, default: T = _REQUIRED) -> int | T:
        """A whole number in ``[low, high]``."""
        wanted = f"a whole number >= {low}" if high is None else f"a whole number from {low} to {high}"
        return self.take(key, wanted, lambda v: _is_integer(v) and v >= low and (high is None or v <= high), default)

    def rate(self, key: str, default: T = _REQUIRED) -> float | T:
        """A learning rate."""
        value = self.take(key, "a finite number >= 0", _is_rate, default)
        return value if value is default else float(value)

    def positive(self, key: str, default: T = _REQUIRED) -> float | T:
        """A number above 0."""
        value = self.take(key, "a finite number > 0", lambda v: _is_number(v) and v > 0, default)
        return value if value is default else float(value)

    def share(self, key: str, default: float = _REQUIRED) -> float:
        """A number in ``[0, 1]``."""
        return float(self.take(key, "a number from 0 to 1", lambda v: _is_number(v) and 0 <= v <= 1, default))

    def integers(self, key: str, default: T = _REQUIRED) -> list[int] | T:
        """A list of whole numbers."""
        wanted = "a list of whole numbers"
        return self.take(key, wanted, lambda v: isinstance(v, list) and all(map(_is_integer, v)), default)

    def rates(self, key: str) -> list[float]:
        """A list of learning rates."""
        wanted = "a list of finite numbers >= 0"
        return [float(v) for v in self.take(key, wanted, lambda v: isinstance(v, list) and all(map(_is_rate, v)))]

    def tables(self, key: str, heading: str) -> list[Any]:
        """A list of at least one table, written in TOML as repeated ``[[heading]]``."""
        return self.take(key, f"at least one [[{heading}]] table", lambda v: isinstance(v, list) and len(v) > 0)
