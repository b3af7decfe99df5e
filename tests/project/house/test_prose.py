"""Plain English: sentences that are hard to read are found, wherever they stand."""

from __future__ import annotations

from pathlib import Path

from tests.support.docs import prose


def test_prose_that_is_hard_to_read_is_told() -> None:
    long = "one two three four five six " * 6 + "end."
    found = [
        prose.Sentence("a.md", s) for s in prose.sentences(f"Short one. {long} Of keys one is.")
    ]
    told = prose.problems(found, {"a.md: gone"})
    assert [t.partition(": ")[0] for t in told] == ["a.md", "a.md", "prose_allowed.txt"]
    for one, part in zip(told, ("37 words", "opens with 'Of'", "a.md: gone"), strict=True):
        assert part in one
    assert [
        list(prose.sentences(p)) for p in prose.paragraphs("# Head\n- A b.\n\n```\nx\n```\nC d.")
    ] == [
        ["A b."],
        ["C d."],
    ]


def test_words_of_links_count_and_pages_beside_the_docs_are_read(tmp_path: Path) -> None:
    (link,) = prose.sentences("See [all of the words](x.md#of) and `some code`.")
    assert prose.Sentence("a.md", link).words == 7
    assert list(prose.sentences("[one](a.md) · [two words](b.md)")) == ["one", "two words"]
    texts = {
        "examples/README.md": "Of all, one.",
        ".github/pull_request_template.md": "Of all, two.",
        ".github/ISSUE_TEMPLATE/a.yml": "body:\n  description: 'Of all, three.'\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert {s.file for s in prose.of_docs(tmp_path) if s.problem} == texts.keys()


def test_prose_of_docstrings_and_pages_is_read(tmp_path: Path) -> None:
    text = '''"""Say it; in short.

    An example:

        of: {x}

    Parameters
    ----------
    one, two : of each
        key
    """
#: Of all keys.
KEYS = 1
'''
    (tmp_path / "evenkeel/templates").mkdir(parents=True)
    (tmp_path / "evenkeel/one.py").write_text(text)
    page = "<p>What {{ one }} in here holds, for {{ two.x }}.</p><td>two {{ words }}</td>"
    (tmp_path / "evenkeel/templates/a.html.j2").write_text(page)
    found = [s.text for s in prose.of_docstrings(tmp_path)]
    assert found == ["Say it; in short.", "An example:", "of each key"]
    assert [s.text for s in prose.of_pages(tmp_path)] == ["What x in here holds, for x."]


def test_every_string_and_comment_of_the_product_is_read(tmp_path: Path) -> None:
    code = '''#: Of all keys,
#: two.
KEYS = 1  # Where they are.
# A comment

# and one apart.
TEXT = "A text that is assigned."
SQL = "SELECT one, two FROM three"
async def texts(x):
    """Wait; a docstring."""
    yield f"{x}: a text of {x:d} that is yielded"
    return "A text " "that is returned." + str(["In a list. And more."])
'''
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins/one.py").write_text(code)
    assert [s.text for s in prose.of_comments(tmp_path)] == [
        *("Of all keys, two.", "Where they are.", "A comment", "and one apart.")
    ]
    assert {s.text for s in prose.of_messages(tmp_path)} == {
        *("A text that is assigned.", "x: a text of x that is yielded"),
        *("A text that is returned.", "In a list.", "And more."),
    }
    assert [s.text for s in prose.of_docstrings(tmp_path)] == ["Wait; a docstring."]
