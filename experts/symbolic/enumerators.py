"""Names of enumerations, which hold constants."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from experts.source.lexer import tokenize


@lru_cache(maxsize=64)
def enumerators(text: str) -> Mapping[str, tuple[str, int]]:
    """The enumerators of a text: value as text and its offset. Those that stand twice are left out."""
    found: dict[str, tuple[str, int]] = {}
    twice: set[str] = set()
    tokens = [t for t in tokenize(text) if t.kind not in ("comment", "directive")]
    for index, token in enumerate(tokens):
        if token.text != "enum":
            continue
        at = index + 1
        while at < len(tokens) and tokens[at].text not in ("{", ";", "(", ")"):
            at += 1
        if at >= len(tokens) or tokens[at].text != "{":
            continue
        last, after = "", 0
        at += 1
        while at < len(tokens) and tokens[at].text != "}" and tokens[at].kind == "word":
            name, start = tokens[at].text, at
            while at < len(tokens) and tokens[at].text not in (",", "}"):
                at += 1
            if at > start + 1 and tokens[start + 1].text == "=":
                last, after = text[tokens[start + 2].span.start : tokens[at - 1].span.end], 0
            elif last:
                after += 1
            else:
                last, after = "0", 0
            if name in found:
                twice.add(name)
            found[name] = (f"({last}) + {after}" if after else last, tokens[start].span.start)
            if at < len(tokens) and tokens[at].text == ",":
                at += 1
    return MappingProxyType({name: value for name, value in found.items() if name not in twice})
