"""The grammar, and how an expression ends: at the first token that cannot continue it.

Upstream's parser looks one token ahead and never asks for the end of the text, so that
``a = 1 b`` is ``a = 1``.  Here an LALR parser is fed a token at a time: if it does not accept a
token, the expression ends there, provided that it may end.  After an operand upstream looks two
tokens ahead: a NOT belongs to the BETWEEN, IN or CONTAINS behind it, any other NOT is an error.

Nodes are made while the text is read.  Lark is imported at the first expression, as servers that
filter by tags never need it.  Upstream: SelectorParser.jj, ParseException, TokenMgrError.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, cast

from rocketmq_emulator.protocol.sql92 import tree
from rocketmq_emulator.protocol.sql92.tree import PARSE_EXCEPTION, BadFilter, FilterTooLarge, Node

if TYPE_CHECKING:
    import lark
    from lark.parsers.lalr_interactive_parser import InteractiveParser

# Ours: upstream has no limits.  An expression within them compiles in about 50 ms at most.
CHARACTERS_MAX = 32_768
TOKENS_MAX = 5_000  # comments and blanks are none
OPEN_MAX = 500  # tokens and operands that wait for what follows them, as parentheses do
TOKEN_ERROR = "org.apache.rocketmq.filter.parser.TokenMgrError"  # noqa: S105 - a class

_GRAMMAR = r"""
start: disjunction                                              -> whole
?disjunction: conjunction
    | disjunction _OR conjunction                               -> either
?conjunction: equality
    | conjunction _AND equality                                 -> both
?equality: comparison
    | equality "=" comparison                                   -> equal
    | equality _UNEQUAL comparison                              -> not_equal
    | equality _IS _NULL                                        -> is_null
    | equality _IS _NOT _NULL                                   -> is_not_null
?comparison: unary
    | comparison ORDER unary                                    -> ordered
    | comparison _BETWEEN unary _AND unary                      -> between
    | comparison _NOT_BETWEEN unary _AND unary                  -> not_between
    | comparison _IN "(" STRING ("," STRING)* ")"               -> member
    | comparison _NOT_IN "(" STRING ("," STRING)* ")"           -> no_member
?unary: primary
    | "+" unary
    | "-" unary                                                 -> negated
    | _NOT unary                                                -> inverted
?primary: STRING                                                -> string
    | DECIMAL                                                   -> decimal
    | FLOATING                                                  -> floating
    | _TRUE                                                     -> true
    | _FALSE                                                    -> false
    | _NULL                                                     -> null
    | ID                                                        -> variable
    | "(" disjunction ")"

_UNEQUAL: "<>"
ORDER: />=|<=|>|<(?!>)/
_NOT.2: /not(?![a-z0-9_$])/i
_AND.2: /and(?![a-z0-9_$])/i
_OR.2: /or(?![a-z0-9_$])/i
_BETWEEN.2: /between(?![a-z0-9_$])/i
_IN.2: /in(?![a-z0-9_$])/i
_TRUE.2: /true(?![a-z0-9_$])/i
_FALSE.2: /false(?![a-z0-9_$])/i
_NULL.2: /null(?![a-z0-9_$])/i
_IS.2: /is(?![a-z0-9_$])/i
FLOATING.2: /[0-9]+\.[0-9]*(?:e[+-]?[0-9]+)?|\.[0-9]+(?:e[+-]?[0-9]+)?|[0-9]+e[+-]?[0-9]+/i
DECIMAL: /0|[1-9][0-9]*l?/i
STRING: /'(?:''|[^'])*'/
ID: /[a-z_$][a-z0-9_$]*/i
BLANKS: /[ \t\n\r\f]+/
LINE_COMMENT.2: /--[^\n\r]*+(?:\r\n|\n|\r)/
BLOCK_COMMENT.2: /\/\*[^*]*\*(?:\*|[^*\/][^*]*\*)*\//
%ignore BLANKS
%ignore LINE_COMMENT
%ignore BLOCK_COMMENT
%declare _NOT_BETWEEN _NOT_IN
"""
_TEXT_SEARCH = r"""
%extend comparison: comparison (CONTAINS | STARTSWITH | ENDSWITH) STRING -> searched
    | comparison (NOT_CONTAINS | NOT_STARTSWITH | NOT_ENDSWITH) STRING   -> not_searched
CONTAINS.2: /contains(?![a-z0-9_$])/i
STARTSWITH.2: /startswith(?![a-z0-9_$])/i
ENDSWITH.2: /endswith(?![a-z0-9_$])/i
%declare NOT_CONTAINS NOT_STARTSWITH NOT_ENDSWITH
"""
_PAIRS = {  # a NOT after an operand, and what must follow it
    "_BETWEEN": "_NOT_BETWEEN",
    "_IN": "_NOT_IN",
    "CONTAINS": "NOT_CONTAINS",
    "STARTSWITH": "NOT_STARTSWITH",
    "ENDSWITH": "NOT_ENDSWITH",
}
_NAMED_TOKENS = {  # by upstream's names; the others are shown as they are written
    "ID": "<ID>",
    "STRING": "<STRING_LITERAL>",
    "DECIMAL": "<DECIMAL_LITERAL>",
    "FLOATING": "<FLOATING_POINT_LITERAL>",
}
_SHOWN = {  # in the list of what could have followed
    "$END": "the end",
    "COMMA": ",",
    "DECIMAL": "a number",
    "EQUAL": "=",
    "FLOATING": "a number",
    "ID": "a property",
    "LPAR": "(",
    "MINUS": "-",
    "ORDER": "< <= > >=",
    "PLUS": "+",
    "RPAR": ")",
    "STRING": "a text in single quotes",
    "_UNEQUAL": "<>",
}
_PREFIXES = ("PLUS", "MINUS", "_NOT")
_TAB_COLUMNS = 8


def parse(expression: str, *, text_search: bool) -> Node:
    """The tree of an expression; *text_search* is whether CONTAINS and its like are known.

    Raises ``BadFilter`` and ``FilterTooLarge``.
    """
    from lark.exceptions import UnexpectedCharacters, UnexpectedToken  # noqa: PLC0415

    if len(expression) > CHARACTERS_MAX:
        raise FilterTooLarge(
            f"an SQL92 expression of {len(expression)} characters: the limit is {CHARACTERS_MAX}"
        )
    steps = _parser(text_search).parse_interactive(expression)
    last: lark.Token | None = None
    try:
        # A token that cannot continue the expression ends it: upstream ignores trailing text.
        with suppress(UnexpectedToken):
            for last in _tokens(steps, expression):
                steps.feed_token(last)
            last = None
    except UnexpectedCharacters as error:
        raise _lexical_error(expression, error.pos_in_stream or 0) from None
    try:
        return cast("Node", steps.feed_eof())
    except UnexpectedToken:
        _raise_unexpected(expression, steps, last)


def _tokens(steps: InteractiveParser, expression: str) -> Iterator[lark.Token]:
    """The tokens, each read when it is fed, as upstream reads none behind the end."""
    tokens = steps.lexer_thread.lex(steps.parser_state)
    for count, token in enumerate(tokens, 1):
        if count > TOKENS_MAX:
            raise FilterTooLarge(
                f"an SQL92 expression of more than {TOKENS_MAX} words, values and signs"
            )
        if len(steps.parser_state.value_stack) > OPEN_MAX:
            raise FilterTooLarge(
                f"an SQL92 expression in which more than {OPEN_MAX} parts are open at once: use"
                " fewer parentheses"
            )
        if token.type == "_NOT" and "_NOT" not in steps.choices():
            following = next(tokens, None)
            if following is None or following.type not in _PAIRS:
                _raise_unexpected(expression, steps, token)
            yield token.update(type=_PAIRS[following.type])
        else:
            yield token


@functools.lru_cache(maxsize=2)
def _parser(text_search: bool) -> lark.Lark:
    import lark  # noqa: PLC0415

    return lark.Lark(
        _GRAMMAR + (_TEXT_SEARCH if text_search else ""),
        parser="lalr",
        lexer="basic",
        maybe_placeholders=False,
        transformer=cast(
            "Any", types.SimpleNamespace(**{name: _spread(act) for name, act in _RULES.items()})
        ),
    )


def _spread(action: Callable[..., Node]) -> Callable[[list[Any]], Node]:
    return lambda children: action(*children)


def _text_search(prefix: str) -> Callable[[Any, Any, Any], Node]:
    return lambda operand, word, image: tree.searched(
        prefix + str(word.type).removeprefix("NOT_"), operand, tree.string(image)
    )


_RULES: dict[str, Callable[..., Node]] = {  # what each rule of the grammar makes
    "whole": tree.as_boolean,
    "either": functools.partial(tree.joined, "||"),
    "both": functools.partial(tree.joined, "&&"),
    "equal": tree.equal,
    "not_equal": tree.not_equal,
    "is_null": tree.is_null,
    "is_not_null": tree.is_not_null,
    "ordered": lambda left, symbol, right: tree.ordered(str(symbol), left, right),
    "between": tree.between,
    "not_between": tree.not_between,
    "member": lambda operand, *images: tree.member(
        operand, tuple(map(tree.string, images)), inverted=False
    ),
    "no_member": lambda operand, *images: tree.member(
        operand, tuple(map(tree.string, images)), inverted=True
    ),
    "searched": _text_search(""),
    "not_searched": _text_search("NOT "),
    "negated": tree.negated,
    "inverted": tree.inverted,
    "string": lambda image: tree.Constant(tree.string(image)),
    "decimal": tree.decimal,
    "floating": tree.floating,
    "true": lambda: tree.Constant(True),
    "false": lambda: tree.Constant(False),
    "null": lambda: tree.Constant(None),
    "variable": lambda name: tree.Property(str(name)),
}


# Errors -------------------------------------------------------------------------------


class _TextPlace(NamedTuple):
    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


def _place(expression: str, index: int) -> _TextPlace:
    """Line and column of a character as upstream counts them: UTF-16 units, tabs to the next 8.

    Before the first character both are 0.  Upstream: SimpleCharStream.UpdateLineColumn.
    """
    line, column = (1, 0) if index >= 0 else (0, 0)
    before = ""
    for character in expression[: index + 1]:
        if before == "\n" or (before == "\r" and character != "\n"):
            line, column = line + 1, 0
        column += 1 + (character > "\uffff")
        if character == "\t":
            column += _TAB_COLUMNS - 1 - (column - 1) % _TAB_COLUMNS
        before = character
    return _TextPlace(line, column)


def _raise_unexpected(
    expression: str, steps: InteractiveParser, token: lark.Token | None
) -> NoReturn:
    """The syntax error at *token*, or at the end of the text."""
    token = _unfinished_plus(steps) or token
    if token is None:
        found, index = '"<EOF>"', len(expression) - 1
    else:
        index = token.start_pos or 0
        image = str(token)
        name = _NAMED_TOKENS.get(token.type.removeprefix("_"), f'"{image.upper()}"')
        found = f'" {name} "{_escaped(image)} ""'
    message = f"Encountered {found} at {_place(expression, index)}."
    expected = {
        _SHOWN.get(terminal, terminal.removeprefix("_").replace("_", " "))
        for terminal in steps.choices()
        if terminal.isupper()  # the others are rules
    }
    hint = f"Was expecting one of: {', '.join(sorted(expected))}"
    raise BadFilter(PARSE_EXCEPTION, message, hint)


def _unfinished_plus(steps: InteractiveParser) -> lark.Token | None:
    """The first ``+`` without a whole operand: upstream looks ahead for that, and stops there."""
    stack = steps.parser_state.value_stack
    kinds = [getattr(item, "type", "") for item in stack]
    for index, kind in enumerate(kinds):
        if kind == "PLUS" and ("LPAR" in kinds[index:] or kinds[-1] in _PREFIXES):
            return cast("lark.Token", stack[index])
    return None


def _lexical_error(expression: str, start: int) -> BadFilter:
    """The error for a text that begins like no token.

    ``'``, ``/*``, ``/`` and ``.`` begin one, so the error is where it fails.  At the last
    character upstream reports the end of the text.  Upstream: TokenMgrError.LexicalError.
    """
    rest = expression[start:]
    open_to_the_end = rest.startswith(("'", "/*"))
    taken = len(rest) if open_to_the_end else 2 if rest[0] in "/." else 1  # characters read
    if taken >= len(rest):
        place = _place(expression, len(expression) - 1)
        if expression[-1] in "\n\r":
            place = _TextPlace(place.line + 1, -1)
        after = rest if len(rest) > 1 else ""
        seen, where = "<EOF> ", _TextPlace(place.line, place.column + 1)
    else:
        failed = rest[taken - 1]
        after = rest[: taken - 1]
        unit = int.from_bytes(failed.encode("utf-16-be", "surrogatepass")[:2])
        seen = f'"{_escaped(chr(unit))}" ({unit}), '
        where = _place(expression, start + taken - 1)
    message = f'Lexical error at {where}.  Encountered: {seen}after : "{_escaped(after)}"'
    return BadFilter(TOKEN_ERROR, message, _LEXICAL_HINTS.get(rest[0], ""))


_LEXICAL_HINTS = {  # what people write who know other languages
    '"': "Texts stand in single quotes.",
    "'": "The text has no closing quote.",
    "!": "Unequal is written <>.",
    "*": "There is no arithmetic.",
    "/": "There is no arithmetic.",
    "%": "There is no arithmetic, and no LIKE.",
    ".": "Names have letters, digits, _ and $ only.",
}


_ESCAPES = {"\0": "", "\b": r"\b", "\t": r"\t", "\n": r"\n", "\f": r"\f", "\r": r"\r"} | {
    character: "\\" + character for character in "\"'\\"
}


def _escaped(text: str) -> str:
    units = text.encode("utf-16-be", "surrogatepass")
    codes = (units[index] << 8 | units[index + 1] for index in range(0, len(units), 2))
    return "".join(_ESCAPES.get(chr(code), _escaped_unit(code)) for code in codes)


def _escaped_unit(code: int) -> str:
    return chr(code) if 0x20 <= code <= 0x7E else f"\\u{code:04x}"
