"""Reads one expression of C: what it stands for, over whatever its names do."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

from experts.source.lexer import Token, closing, tokenize

from .parts import Address, Cell, Comparison, Integer, Part, Relation
from .types import QUALIFIER_WORDS, Element, counts, element, is_type_word, is_unsigned
from .values import Unclear, Value, counter, not_negative, number, operation

_JOINED = frozenset({"<=", ">=", "==", "!=", "&&", "||", "<<", ">>"})
_LEVELS: tuple[tuple[str, ...], ...] = (
    ("&",),
    ("==", "!="),
    ("<", "<=", ">", ">="),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "%"),
)
_SWAPPED = {"unsigned": "unsigned int", "signed": "int"}
MAX_DEPTH = 40
_MAX_TOKENS = 2000


class Names(Protocol):
    """Where names get their meaning."""

    positive: frozenset[str]
    """The symbols that are known to be 1 or more."""
    label: str
    """Tells reads of one text apart where its names mean different things."""

    def macro(self, name: str) -> tuple[tuple[str, ...] | None, str] | None:
        """Parameters and body of a macro; None for what is none. Raises Unclear where it may be another."""
        ...

    def name(self, name: str, at: int, depth: int) -> Part:
        """What a name stands for at an offset of the text. Raises Unclear."""
        ...

    def call(self, name: str, arguments: Sequence[Part], depth: int) -> Part:
        """What a call of a function gives. Raises Unclear."""
        ...

    def member(self, name: str, member: str) -> Part:
        """What `name.member` stands for. Raises Unclear."""
        ...


def read(text: str, at: int, names: Names, depth: int = 0) -> Part:
    """What an expression that stands at offset `at` stands for. Raises Unclear for whatever is not understood."""
    if depth > MAX_DEPTH:
        raise Unclear("names that are defined by each other")
    tokens = _expanded(_tokens(text), names, frozenset())
    reader = _Reader(_joined(tokens), at, names, depth)
    try:
        return reader.read()
    except RecursionError:
        raise Unclear("nested too deeply") from None


@lru_cache(maxsize=4096)
def _tokens(text: str) -> tuple[Token, ...]:
    return tuple(t for t in tokenize(text) if t.kind != "comment")


def integer(part: Part) -> Integer:
    """A whole number. Raises Unclear for what is none."""
    if not isinstance(part, Integer):
        raise Unclear("a number from memory" if isinstance(part, Cell) else "not a whole number")
    return part


def _expanded(tokens: Sequence[Token], names: Names, inside: frozenset[str]) -> list[Token]:
    """The tokens with every macro replaced by its body, as the preprocessor does."""
    result: list[Token] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        at += 1
        macro = names.macro(token.text) if token.kind == "word" and token.text not in inside else None
        if macro is None:
            result.append(token)
            continue
        parameters, body = macro
        replaced: Sequence[Token] = _tokens(body)
        if parameters is not None:
            if at >= len(tokens) or tokens[at].text != "(":
                result.append(token)
                continue
            end = closing(tokens, at)
            if end is None:
                raise Unclear("brackets that do not close")
            given = _arguments(tokens[at + 1 : end])
            if len(given) != len(parameters) or any(t.text in ("#", "##") for t in replaced):
                raise Unclear(f"a use of the macro {token.text}")
            known = dict(zip(parameters, (_expanded(part, names, inside) for part in given), strict=True))
            replaced = [t for own in replaced for t in (known.get(own.text, [own]) if own.kind == "word" else [own])]
            at = end + 1
        result += _expanded(replaced, names, inside | {token.text})
        if len(result) > _MAX_TOKENS:
            raise Unclear("an expression of too many parts")
    return result


def _arguments(tokens: Sequence[Token]) -> list[list[Token]]:
    """The arguments of a macro: what stands between commas that are in no bracket."""
    given: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token.text in ("(", "[", "{")) - (token.text in (")", "]", "}"))
        if token.text == "," and not depth:
            given.append([])
        else:
            given[-1].append(token)
    return given


def _joined(tokens: Sequence[Token]) -> list[str]:
    texts: list[str] = []
    last: Token | None = None
    for token in tokens:
        if token.kind not in ("word", "number", "punct"):
            raise Unclear("not a whole number")
        if last is not None and last.span.end == token.span.start and last.text + token.text in _JOINED:
            texts[-1] += token.text
            last = None
            continue
        texts.append(token.text)
        last = token
    return texts


class _Reader:
    """Descends through one list of tokens."""

    def __init__(self, tokens: Sequence[str], at: int, names: Names, depth: int) -> None:
        self.tokens, self.at, self.names, self.depth = tokens, at, names, depth
        self.next = 0

    def read(self) -> Part:
        part = self._choice()
        if self.next < len(self.tokens):
            raise Unclear(f"{self.tokens[self.next]!r} in an expression")
        return part

    def _peek(self, ahead: int = 0) -> str:
        return self.tokens[self.next + ahead] if self.next + ahead < len(self.tokens) else ""

    def _take(self, wanted: str | None = None) -> str:
        token = self._peek()
        if not token or (wanted is not None and token != wanted):
            raise Unclear("an expression that is not understood")
        self.next += 1
        return token

    def _choice(self) -> Part:
        question = self._top_level("?")
        if question is None:
            return self._binary(0)
        condition: Part | None
        inner = _Reader(self.tokens[self.next : question], self.at, self.names, self.depth)
        try:
            condition = inner.read()
        except Unclear:
            condition = None
        self.next = question + 1
        then = integer(self._choice())
        self._take(":")
        otherwise = integer(self._choice())
        unsigned = then.unsigned or otherwise.unsigned
        if isinstance(condition, Comparison):
            return Integer(condition.choose(then.value, otherwise.value), unsigned)
        # Either may be taken: as if a loop went through both.
        key = f"choice {self.names.label} {self.at} {question} {len(self.tokens)}"
        picked = counter(key, number(2))
        return Integer(then.value + picked * (otherwise.value - then.value), unsigned)

    def _top_level(self, wanted: str) -> int | None:
        depth = 0
        for index in range(self.next, len(self.tokens)):
            token = self.tokens[index]
            if token in ("(", "["):
                depth += 1
            elif token in (")", "]"):
                depth -= 1
            if depth < 0 or (depth == 0 and token in (",", ":")):
                return None
            if depth == 0 and token == wanted:
                return index
        return None

    def _binary(self, level: int) -> Part:
        if level == len(_LEVELS):
            return self._unary()
        left = self._binary(level + 1)
        while self._peek() in _LEVELS[level]:
            sign = self._take()
            left = self._combined(sign, left, self._binary(level + 1))
        return left

    def _combined(self, sign: str, left: Part, right: Part) -> Part:
        if isinstance(left, Address) and sign in ("+", "-"):
            count = integer(right).value
            return left.moved(count if sign == "+" else -count)
        if isinstance(right, Address) and sign == "+":
            return right.moved(integer(left).value)
        a, b = integer(left), integer(right)
        unsigned = a.unsigned or b.unsigned
        if sign == "+":
            return Integer(a.value + b.value, unsigned)
        if sign == "-":
            return Integer(a.value - b.value, unsigned)
        if sign == "*":
            return Integer(a.value * b.value, unsigned)
        x, y = self._whole(a, unsigned), self._whole(b, unsigned)
        if sign in ("<", "<=", ">", ">=", "==", "!="):
            relation: Relation = sign  # type: ignore[assignment]
            return Comparison(relation, x, y)
        if sign in ("/", "%"):
            floor = unsigned or (not_negative(x, self.names.positive) and not_negative(y, self.names.positive))
            name = ("fdiv" if floor else "div") if sign == "/" else ("fmod" if floor else "mod")
            return Integer(operation(name, x, y), unsigned)  # type: ignore[arg-type]
        by = y.number
        if by is None or not 0 <= by < 1 << 40:
            raise Unclear(f"{sign!r} by what is no number")
        if sign == "&":
            if by & (by + 1):
                raise Unclear("a mask")
            return Integer(operation("fmod", x, number(by + 1)), unsigned)
        if by > 40:
            raise Unclear("a long shift")
        power = number(1 << by)
        return Integer(x * power if sign == "<<" else operation("fdiv", x, power), unsigned)

    def _whole(self, part: Integer, unsigned: bool) -> Value:
        """An operand of what is no sum or product."""
        if not unsigned or not_negative(part.value, self.names.positive):
            return part.value
        return Integer(part.value, True).checked

    def _unary(self) -> Part:
        token = self._peek()
        if token in ("-", "+"):
            self._take()
            part = integer(self._unary())
            return Integer(-part.value if token == "-" else part.value, part.unsigned)
        if token == "*":
            self._take()
            part_ = self._unary()
            if not isinstance(part_, Address):
                raise Unclear("a pointer that is not understood")
            return part_.row() if part_.dims else Cell(part_)
        if token == "&":
            self._take()
            target = self._unary()
            if not isinstance(target, Cell):
                raise Unclear("an address that is not understood")
            return target.address
        if token == "(":
            written = self._cast()
            if written is not None:
                return self._converted(*written, self._unary())
        return self._postfix()

    def _cast(self) -> tuple[str, int] | None:
        """The type and the stars of a cast that begins here; None where none does."""
        ahead, words, stars = 1, [], 0
        while (token := self._peek(ahead)) and token != ")":
            if token == "*":
                stars += 1
            elif token not in QUALIFIER_WORDS:
                if not is_type_word(token):
                    return None
                words.append(token)
            ahead += 1
        if not words or not self._peek(ahead):
            return None
        self.next += ahead + 1
        name = " ".join(words)
        return _SWAPPED.get(name, name), stars

    def _converted(self, name: str, stars: int, part: Part) -> Part:
        if stars:
            kind = element(name)
            if stars > 1 or kind is None or not isinstance(part, Address):
                raise Unclear(f"a cast to {name}")
            return part.seen_as(kind)
        if not counts(name):
            raise Unclear(f"a cast to {name}")
        return Integer(integer(part).value, is_unsigned(name))

    def _postfix(self) -> Part:
        part = self._primary()
        while True:
            if self._peek() == "[":
                self._take()
                index = integer(self._choice()).value
                self._take("]")
                if not isinstance(part, Address):
                    raise Unclear("an index of what is no array")
                moved = part.moved(index)
                part = moved.row() if moved.dims else Cell(moved)
            elif self._peek() in (".", "->", "++", "("):
                raise Unclear("an expression that is not understood")
            else:
                return part

    def _primary(self) -> Part:
        token = self._take()
        if token == "(":
            part = self._choice()
            self._take(")")
            return part
        if token[0].isdigit():
            return _literal(token)
        if not (token[0].isalpha() or token[0] in "_$"):
            raise Unclear(f"{token!r} in an expression")
        if self._peek() == "(":
            return self._call(token)
        if self._peek() == ".":
            self._take()
            return self.names.member(token, self._take())
        return self.names.name(token, self.at, self.depth + 1)

    def _call(self, name: str) -> Part:
        self._take("(")
        if name == "sizeof":
            return self._sizeof()
        arguments: list[Part] = []
        while self._peek() != ")":
            if arguments:
                self._take(",")
            arguments.append(self._choice())
        self._take(")")
        return self.names.call(name, arguments, self.depth + 1)

    def _sizeof(self) -> Part:
        self.next -= 1
        written = self._cast()
        kind: Element | None = element(written[0]) if written is not None else None
        if written is None or kind is None:
            raise Unclear("the size of an expression")
        return Integer(number(8 if written[1] else kind.size), True)


def _literal(text: str) -> Integer:
    digits = text.rstrip("uUlL")
    try:
        # C's octal numbers begin with a 0 where Python has 0o
        value = int(digits, 8) if digits.isdigit() and digits[0] == "0" else int(digits, 0)
    except ValueError:
        raise Unclear(f"{text} is not a whole number") from None
    return Integer(number(value), "u" in text[len(digits) :].lower())
