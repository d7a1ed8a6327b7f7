"""Content ids: derived, stable, and only over values that JSON has."""

import hashlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experts.ids import content_id, text_id

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def test_text_id_is_the_start_of_sha256_over_utf8() -> None:
    assert text_id("größe\n") == hashlib.sha256("größe\n".encode()).hexdigest()[:16]
    assert text_id("abc") == "ba7816bf8f01cfea"


def test_content_id_is_over_canonical_json() -> None:
    assert content_id({"b": 1, "a": [True, None, "ü"]}) == text_id('{"a":[true,null,"ü"],"b":1}')


@given(st.dictionaries(st.text(), _JSON, max_size=5))
def test_content_id_does_not_depend_on_the_order_of_keys(value: dict[str, object]) -> None:
    turned = dict(reversed(list(value.items())))
    assert content_id(value) == content_id(turned)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1}, {"a": "1"}),
        ({"a": 1}, {"a": True}),
        ({"a": None}, {}),
        ({"a": [1, 2]}, {"a": [2, 1]}),
        (["ab", "c"], ["a", "bc"]),
        ({"a": {"b": 1}}, {"a": {}, "b": 1}),
        ({"a": "é"}, {"a": "e\u0301"}),
    ],
)
def test_different_values_have_different_ids(one: dict[str, object], other: dict[str, object]) -> None:
    assert content_id(one) != content_id(other)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_content_id_refuses_floats_that_are_not_finite(bad: float) -> None:
    with pytest.raises(ValueError):
        content_id({"a": bad})


@pytest.mark.parametrize("bad", [{1, 2}, b"bytes", object()])
def test_content_id_refuses_what_json_has_not(bad: object) -> None:
    with pytest.raises(TypeError):
        content_id({"a": bad})


@given(st.text())
def test_ids_have_sixteen_hex_digits(text: str) -> None:
    found = text_id(text)
    assert len(found) == 16 and set(found) <= set("0123456789abcdef")
