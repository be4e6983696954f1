"""Expressions over names: numbers, text, + - * / // %, comparisons, and/or/not, in, min, max, abs. Everything else is refused.

A name can contain dots (`exposed_s.tp`).
"""

import ast
import operator
from collections.abc import Mapping

from lib.words import nearest

_ARITHMETIC = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
               ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod}
_COMPARISONS = {ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
                ast.GtE: operator.ge, ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b}
_FUNCTIONS = {"min": min, "max": max, "abs": abs}
_LONGEST = 1000  # characters


class ExpressionError(Exception):
    """An error in an expression, without the text of the expression."""


class Expression:
    """An expression. The constructor checks it."""

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            if len(text) > _LONGEST:
                raise ValueError
            self._tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ExpressionError("not an expression such as 'tp * pp <= 8'") from error
        self.names: set[str] = set()
        self._check(self._tree)

    def _check(self, node: ast.AST) -> None:
        """Refuses all nodes that `_value` cannot evaluate, and collects the names."""
        if isinstance(node, (ast.Name, ast.Attribute)):
            self.names.add(_dotted(node))
            return
        if isinstance(node, ast.Call):
            if not isinstance(node.func, ast.Name) or node.func.id not in _FUNCTIONS or node.keywords or not node.args:
                raise ExpressionError(f"unknown function; accepted: {', '.join(_FUNCTIONS)}")
            for argument in node.args:
                self._check(argument)
            return
        known = isinstance(node, (ast.BoolOp, ast.List, ast.Tuple))
        known |= isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float, str))
        known |= isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC
        known |= isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not))
        known |= isinstance(node, ast.Compare) and all(type(op) in _COMPARISONS for op in node.ops)
        if not known:
            raise ExpressionError("accepted are numbers, names, + - * / // %, comparisons, and, or, not, in, min, max, abs")
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self._check(child)

    def check_names(self, known: Mapping[str, object] | set[str]) -> None:
        for name in sorted(self.names):
            if name not in known:
                raise ExpressionError(f"'{name}' is unknown{nearest(name, known)}; known here: {', '.join(sorted(known))}")

    def value(self, names: Mapping[str, object]) -> object:
        try:
            return self._value(self._tree, names)
        except KeyError as error:
            raise ExpressionError(f"'{error.args[0]}' is unknown{nearest(error.args[0], names)}") from error
        except ZeroDivisionError as error:
            raise ExpressionError("divides by zero") from error
        except (TypeError, ValueError, OverflowError) as error:
            raise ExpressionError(f"cannot be evaluated: {error}") from error

    def _value(self, node: ast.AST, names: Mapping[str, object]) -> object:  # pylint: disable=too-many-return-statements
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, (ast.Name, ast.Attribute)):
            return names[_dotted(node)]
        if isinstance(node, (ast.List, ast.Tuple)):
            return [self._value(element, names) for element in node.elts]
        if isinstance(node, ast.Call):
            return _FUNCTIONS[node.func.id](*(self._value(argument, names) for argument in node.args))
        if isinstance(node, ast.UnaryOp):
            value = self._value(node.operand, names)
            return not value if isinstance(node.op, ast.Not) else -_number(value)
        if isinstance(node, ast.BinOp):
            return _ARITHMETIC[type(node.op)](_number(self._value(node.left, names)), _number(self._value(node.right, names)))
        if isinstance(node, ast.BoolOp):
            values = (self._value(value, names) for value in node.values)
            return all(values) if isinstance(node.op, ast.And) else any(values)
        left = self._value(node.left, names)
        for op, comparator in zip(node.ops, node.comparators):
            right = self._value(comparator, names)
            if not _COMPARISONS[type(op)](left, right):
                return False
            left = right
        return True


def _dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    raise ExpressionError("not a name; accepted: words separated by dots")


def _number(value: object) -> int | float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{value!r} is not a number")
    return value
