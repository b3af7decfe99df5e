"""Calls of an example in Python: each names what is there, and gives arguments that it takes."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import evenkeel


def bound_calls(tree: ast.AST, known: Mapping[str, Any]) -> Iterator[ast.Call]:
    """Yield each call with what it calls known, after its arguments were bound.

    Parameters
    ----------
    known : name -> the function, or the class of the value, for which it stands; it has the classes
        that functions return, too

    Raises
    ------
    AttributeError : there is no such function
    TypeError : it does not take these arguments
    """
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and (target := _target(call.func, known)) is not None:
            own = [None] if "." in target.__qualname__ else []
            names = {k.arg: None for k in call.keywords if k.arg}
            # Dots stand for arguments that the page does not show.
            if ast.unparse(call.args) != "...":
                inspect.signature(target).bind(*own, *call.args, **names)
            yield call


def _target(node: ast.expr, known: Mapping[str, Any]) -> Any:
    """Return what an expression names or is a value of; None: it is of others."""
    match node:
        case ast.Name(id=name):
            return known.get(name)
        case ast.Attribute(value=value, attr=name) if (owner := _target(value, known)) is not None:
            found = getattr(owner, name)
            return _class(found.fget, known) if isinstance(found, property) else found
        case ast.Call(func=of) if (function := _target(of, known)) is not None:
            return _class(function, known)
    return None


def _class(function: Any, known: Mapping[str, Any]) -> Any:
    """Return the class of what a function returns, as its annotation says it."""
    if inspect.isclass(function):
        return function
    kind = inspect.signature(function).return_annotation
    name = getattr(kind, "__name__", str(kind))
    return getattr(evenkeel, name, known.get(name))
