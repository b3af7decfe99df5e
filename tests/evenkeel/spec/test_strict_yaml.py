"""YAML that is no spec: one error each, and the other specs of a folder are read."""

import subprocess
import sys

import pytest

from evenkeel.spec.catalog import load_catalog
from evenkeel.spec.custom_merges import MERGES_VARIABLE
from evenkeel.spec.loading import load_spec
from partitioning.errors import InputError
from tests.support.cases.specs import write


@pytest.mark.parametrize("field", ["channels", "keep", "trigger", "registry"])
def test_yes_is_no_number(tmp_path, field):
    with pytest.raises(
        InputError, match=rf"{field}: expected another value than yes, no, true or false"
    ):
        load_spec(write(tmp_path, **{field: True}))


def test_a_field_given_twice_is_refused(tmp_path):
    file = write(tmp_path)
    lines = file.read_text().splitlines()
    (first,) = (n for n, line in enumerate(lines, 1) if line.startswith("channels:"))
    file.write_text("\n".join([*lines, "channels: 5\n"]))
    said = rf"channels: given twice, at line {first} and at line {len(lines) + 1}\)"
    with pytest.raises(InputError, match=said):
        load_spec(file)


#: YAML that is none, or whose scalars are none of their tag; and what is said of it.
NO_YAML = [
    (
        "keep: 2026-02-30",
        "expected type timestamp, got 2026-02-30: day is out of range.*line 1, column 7",
    ),
    ("keep: !!bool abc", "expected type bool, got abc"),
    ("keep: !!timestamp abc", "expected type timestamp, got abc"),
    ("keep: !!int ''", "expected type int, got"),
    ("keep: !!set [a]", "expected a mapping node"),
    ("!!map a", "expected a mapping node"),
    ("[" * 5000, "nest(ed too deeply|ing depth)"),
    ("keep: " + "9" * 5000, "expected type int, got 9{40}: Exceeds the limit"),
    ("keep: !!python/name:os.system", "could not determine a constructor"),
    ("a: [", "while parsing"),
]


@pytest.mark.parametrize(("text", "message"), NO_YAML, ids=[t[:20] for t, _ in NO_YAML])
def test_what_is_no_yaml_is_one_error_and_leaves_the_other_specs(
    tmp_path, monkeypatch, text, message
):
    good, bad = write(tmp_path), tmp_path / "bad.yaml"
    bad.write_text(text)
    with pytest.raises(InputError, match=f"bad.yaml: not YAML .*{message}") as caught:
        load_spec(bad)
    assert "\n" not in str(caught.value) and "<unicode string>" not in str(caught.value)
    catalog = load_catalog(tmp_path)
    assert [*catalog.specs] == [good]
    assert [str(p) for p in catalog.problems] == [str(caught.value)]
    # A wrong file of merges is of all specs.
    monkeypatch.setenv(MERGES_VARIABLE, str(bad))
    with pytest.raises(InputError, match=f"bad.yaml: not YAML .*{message}"):
        load_spec(good)


def test_a_yaml_library_without_libyaml_reads_the_same(tmp_path):
    good, bad = write(tmp_path), tmp_path / "bad.yaml"
    bad.write_text("[" * 5000)
    program = f"""
import sys
sys.modules["yaml._yaml"] = None
import yaml
from evenkeel.spec.catalog import load_catalog
catalog = load_catalog(__import__("pathlib").Path({str(tmp_path)!r}))
print(yaml.__with_libyaml__, *(s.model_dump_json() for s in catalog.specs.values()), sep="\\n")
print(*catalog.problems)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.splitlines()[:2] == ["False", load_spec(good).model_dump_json()], done.stderr
    assert "nest" in done.stdout
