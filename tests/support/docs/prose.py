"""Check that texts for people are plain: `python -m tests.support.docs.prose`, in make lint.

It reads docs, pages, and the strings, docstrings and comments of the product's code. A sentence is
too long over 30 words, and wrong if it opens with a word that turns it around ("Of 16 airlines one
..."). Known ones are listed in prose_allowed.txt. That list only shrinks: a line that nothing needs
is an error, and `python -m tests.support.docs.prose --shrink` removes it.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.support.docs.product import PRODUCT, ROOT, modules

ALLOWED = Path(__file__).with_name("prose_allowed.txt")
#: Words of the longest sentence.
LONGEST = 30
#: Spaces in a cell of a table from which on it is read as a sentence.
CELL = 5
#: Words on average over all sentences of a page, at most.
MEAN = 20.0
_OPENINGS = re.compile(r"(Of|What|That|Where|Whoever|Whatever|Such as) [a-z]")
_OLD = re.compile(r"\b(anew|whoever|thereof|whereof|foretold|foretell|foretells|lest|shall)\b")
_SQL = re.compile(r"\s*(MERGE INTO|WITH \w+ AS|SELECT|UPDATE|INSERT|ALTER|DELETE) ")
_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class Sentence(NamedTuple):
    """A sentence, and the file that it stands in."""

    file: str
    text: str

    @property
    def words(self) -> int:
        """How many words it has; a piece of code or a formula is one."""
        return len(self.text.split())

    @property
    def problem(self) -> str | None:
        """What is wrong with it; None: nothing."""
        if self.words > LONGEST:
            return f"{self.words} words, at most {LONGEST} are allowed"
        if found := _OPENINGS.match(self.text):
            return f"opens with {found[1]!r}: start with the noun"
        if found := _OLD.search(self.text):
            return f"says {found[1]!r}: use a plain word"
        return None


def sentences(text: str) -> Iterator[str]:
    """Sentences of a paragraph, with links as their texts, and code as one word each."""
    plain = re.sub(r"`[^`]*`", "code", text)
    plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", plain)
    plain = re.sub(r"https?://\S+|[*_]{1,2}(?=\S)|(?<=\S)[*_]{1,2}", "", plain)
    # Links in a row are parted by a dot in the middle.
    for part in re.split(r"(?<=[.!?])[)\"']?\s+|\s+·\s+", re.sub(r"\s+", " ", plain).strip()):
        if part:
            yield part


def paragraphs(markdown: str) -> Iterator[str]:
    """Paragraphs, list items and cells of tables with a sentence in them; no code, no HTML."""
    text = re.sub(r"```.*?(```|\Z)", "\n\n", markdown, flags=re.S)
    block: list[str] = []
    for line in [*text.splitlines(), ""]:
        bare = line.strip()
        starts = re.match(r"([-*+]|\d+\.|>|#+) ", bare)
        if not bare or starts or bare.startswith(("|", "<", "![")):
            if block:
                yield " ".join(block)
            block = []
        if bare.startswith("|"):
            yield from (cell for cell in bare.strip("|").split(" | ") if cell.count(" ") > CELL)
        if bare and not bare.startswith(("|", "<", "![", "#")):
            block.append(bare[starts.end() :] if starts else bare)


def of_docs(root: Path = ROOT) -> list[Sentence]:
    """Every sentence of the README, the docs, and other pages and forms beside them."""
    files = [*sorted(root.glob("*.md")), *sorted((root / "docs").rglob("*.md"))]
    for folder in ("examples", "clients"):
        files += sorted((root / folder).glob("*.md"))
    files += [*sorted((root / ".github").rglob("*.md"))]
    forms = sorted((root / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
    return [
        *(
            Sentence(str(file.relative_to(root)), sentence)
            for file in forms
            for text in re.findall(r"(?:description|about): +(.+)", file.read_text())
            for sentence in sentences(text.strip("\"'"))
        ),
        *(
            Sentence(str(file.relative_to(root)), sentence)
            for file in files
            for paragraph in paragraphs(file.read_text())
            for sentence in sentences(paragraph)
        ),
    ]


def of_messages(root: Path = ROOT) -> list[Sentence]:
    """Every sentence that the product says: any string but a docstring or SQL, with a space."""
    return [
        Sentence(name, sentence)
        for name, _, tree in modules(root)
        for text in strings(tree)
        if not _SQL.match(text)
        for sentence in sentences(text)
        if " " in sentence
    ]


def strings(tree: ast.Module) -> Iterator[str]:
    """Texts of a module but for docstrings; each field of an f-string is one word."""
    apart = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, _DOCUMENTED) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            apart |= {id(part) for part in ast.walk(node) if part is not node}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in apart:
            yield _literal(node)


def of_comments(root: Path = ROOT) -> list[Sentence]:
    """Every sentence of a comment. Lines of comments below one another are one text."""
    return [
        Sentence(name, sentence)
        for name, text, _ in modules(root)
        for comment in comments(text)
        for sentence in sentences(comment)
    ]


def comments(code: str) -> Iterator[str]:
    """Comments of a module, without their marks."""
    block, row = list[str](), 0
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type == tokenize.COMMENT:
            alone = token.line.strip().startswith("#")
            if block and not (alone and token.start[0] == row + 1):
                yield " ".join(block)
                block = []
            block.append(re.sub("^#:? ?", "", token.string))
            row = token.start[0] if alone else -1
    if block:
        yield " ".join(block)


def of_pages(root: Path = ROOT) -> list[Sentence]:
    """Every sentence of the templates of pages and reports, and of the comments of scripts."""
    readers = {"*.j2": page_lines, "*.js": lambda text: re.findall(r"^\s*// ?(.*)$", text, re.M)}
    return [
        Sentence(str(file.relative_to(root)), sentence)
        for package in PRODUCT
        for kind, lines in readers.items()
        for file in sorted((root / package).rglob(kind))
        for line in lines(file.read_text())
        if line.count(" ") > CELL
        for sentence in sentences(line)
    ]


def page_lines(template: str) -> list[str]:
    """Lines of a template's text, then the strings of its fields; a field itself is one word."""
    text = re.sub(r"{#.*?#}|<(style|script|svg).*?</\1>", "", template, flags=re.S)
    fields = re.findall(r"{{.*?}}", text, flags=re.S)
    said = [s[1:-1] for field in fields for s in re.findall(r"\"[^\"]*\"|'[^']*'", field)]
    text = re.sub(r"{%.*?%}|</?(?!(a|strong|em|code|span|time|abbr)\b)\w.*?>", "\n", text)
    text = re.sub(r"<.*?>", "", re.sub(r"{{.*?}}", "x", text, flags=re.S), flags=re.S)
    return [*text.splitlines(), *said]


def of_docstrings(root: Path = ROOT) -> list[Sentence]:
    """Every sentence of a docstring."""
    return [
        Sentence(name, sentence)
        for name, _, tree in modules(root)
        for node in ast.walk(tree)
        if isinstance(node, _DOCUMENTED)
        for paragraph in docstring_paragraphs(ast.get_docstring(node) or "")
        for sentence in sentences(paragraph)
    ]


def docstring_paragraphs(docstring: str) -> Iterator[str]:
    """Paragraphs, list items and texts of parameters; no examples, no code, no headings."""
    lines, block = [*docstring.splitlines(), ""], list[str]()
    example = opens = False
    for at, line in enumerate(lines):
        bare = line.strip()
        field = re.match(r"([-*+] |\d+\. |[\w*, .{}]+ : )(.*)", bare)
        heading = set(lines[min(at + 1, len(lines) - 1)].strip()) == {"-"}
        apart = not bare or heading or set(bare) == {"-"} or bare.startswith((">>>", "..."))
        # An indented block after a colon is an example.
        example = bool(bare) and (example or opens) and line.startswith("    ")
        opens = lines[at - 1].rstrip().endswith(":") if not bare and at else False
        apart |= example
        if (apart or field) and block:
            yield " ".join(block)
            block = []
        if not apart:
            block.append(field[2] if field else bare)


def _literal(node: ast.expr) -> str:
    """Text of a string or f-string, each field as one word; empty: it is neither."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(
            v.value if isinstance(v, ast.Constant) and isinstance(v.value, str) else "x"
            for v in node.values
        )
    return ""


def wrong_sentences(found: Iterable[Sentence]) -> dict[str, str]:
    """Return file and beginning of each sentence that is wrong, with what is wrong with it."""
    return {f"{s.file}: {s.text[:80]}": s.problem for s in found if s.problem is not None}


def problems(found: Iterable[Sentence], allowed: set[str]) -> list[str]:
    """Return what is wrong and not allowed, and what is allowed and no longer wrong."""
    wrong = wrong_sentences(found)
    return [f"{where}: {why}" for where, why in wrong.items() if where not in allowed] + [
        f"{ALLOWED.name}: no longer needed, remove it: {line}" for line in allowed - set(wrong)
    ]


def main(arguments: list[str]) -> int:
    """Print what is wrong; return the exit code."""
    docs = of_docs()
    every = [*docs, *of_messages(), *of_pages(), *of_docstrings(), *of_comments()]
    listed = {line for line in ALLOWED.read_text().splitlines() if line}
    if arguments == ["--shrink"]:
        listed &= wrong_sentences(every).keys()
        ALLOWED.write_text("".join(f"{line}\n" for line in sorted(listed)))
    found = problems(every, listed)
    pages = {file: [s.words for s in docs if s.file == file] for file in {s.file for s in docs}}
    for file, words in pages.items():
        if (mean := sum(words) / len(words)) > MEAN:
            found.append(f"{file}: {mean:.1f} words a sentence, at most {MEAN:g} on average")
    for line in sorted(found):
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
