"""Where specs may point: folders of their own, URLs without keys, and the allowed roots."""

import pytest

from evenkeel.cli import main
from evenkeel.spec.catalog import load_catalog
from evenkeel.spec.loading import load_spec
from evenkeel.spec.places import allowed_roots
from partitioning.errors import InputError
from tests.support.cases.specs import write


def test_the_registry_has_a_folder_of_its_own(tmp_path):
    with pytest.raises(InputError, match=r"registry: is that of state\.flights\.path"):
        load_spec(write(tmp_path, registry="./state/"))


@pytest.mark.parametrize(
    "change",
    [
        "registry: s3://{}@bucket/r",
        "registry: s3://{}/with/slashes@bucket",
        'registry: "s3://AKIA\\x3aS3CRET@bucket"',
        "registry: hdfs://S3CRET@host/r",
        "registry: abfss://{}@account.dfs.core.windows.net/r",
        "input: s3://{}@bucket/in",
        "inptu: {{path: https://{}@host/in}}",
        "keep: [s3://{}@bucket",
        "# was s3://{}@bucket",
    ],
)
def test_a_key_in_a_url_is_refused_and_not_repeated(tmp_path, change, capsys, monkeypatch):
    file = write(tmp_path)
    lines = [x for x in file.read_text().splitlines() if not x.startswith(change.split(":")[0])]
    file.write_text("\n".join([change.format("AKIA:S3CRET"), *lines]))
    with pytest.raises(InputError, match="line 1: a URL holds a user or .* environment") as caught:
        load_spec(file)
    problems = [str(p) for p in load_catalog(tmp_path).problems]
    monkeypatch.setattr("sys.argv", ["evenkeel", "check", str(file)])
    with pytest.raises(SystemExit):
        main()
    said = "".join(capsys.readouterr())
    assert "a URL holds a user" in said
    assert not [x for x in (str(caught.value), said, *problems) if "S3CRET" in x or "AKIA" in x]


def test_a_container_and_a_port_are_no_keys(tmp_path):
    azure = "abfss://lake@account.dfs.core.windows.net/r"
    for url in (azure, "hdfs://host:8020/user@a", "s3://b/a@b"):
        assert load_spec(write(tmp_path, registry=url)).registry == url


def test_urls_stay_as_they_are(tmp_path):
    assert load_spec(write(tmp_path, registry="s3://bucket/r")).registry == "s3://bucket/r"


@pytest.mark.parametrize("place", ["file:/lake/x", "hdfs:/user/x", "s3a:/lake/x"])
def test_a_url_with_one_slash_is_no_folder_beside_the_spec(tmp_path, place):
    state = {"flights": {"path": place, "columns": {"n": {"merge": "count"}}}}
    changes = {
        "input.path": {"input": {"path": place, "time": "day"}},
        "registry": {"registry": place},
        "state.flights.path": {"state": state},
    }
    for field, change in changes.items():
        wrong = rf"yaml: {field}: expected a path alone, or two slashes .*\(got '{place}'\)"
        with pytest.raises(InputError, match=wrong):
            load_spec(write(tmp_path, **change))


def test_a_place_that_cannot_be_resolved_takes_no_other_table_with_it(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    write(tmp_path, registry="loop/registry")
    other = (tmp_path / "other.yaml", '"nul\\0l"')
    other[0].write_text((tmp_path / "flights.yaml").read_text().replace("loop/registry", other[1]))
    found = load_catalog(tmp_path)
    assert [spec.table for spec in found.specs.values()] == ["flights"]
    (problem,) = found.problems
    assert "other.yaml: registry: expected a path or a URL, without a null" in str(problem)


@pytest.mark.parametrize("place", ["a:b/c", "day=10:00/x", "file:///lake/x"])
def test_a_colon_may_be_in_a_path(tmp_path, place):
    assert load_spec(write(tmp_path, registry=place)).registry.endswith(place)


@pytest.mark.parametrize(
    ("allowed", "path"),
    [
        ("/data/lake", "/data/lake/in.parquet"),
        ("/data/lake/", "file:///data/lake/in.parquet"),
        ("file:///data/lake", "/data/x/../lake/*.parquet"),
        ("s3://lake/in", "s3a://lake/in/day"),
        ("abfs://c@account/", "abfss://c@account/in"),
    ],
)
def test_a_spec_inside_of_the_roots(tmp_path, monkeypatch, allowed, path):
    monkeypatch.setenv(allowed_roots.ROOTS_VARIABLE, f" {allowed} ,{tmp_path},")
    file = write(tmp_path, input={"path": path, "time": "day"})
    assert load_spec(file).input.path == path


@pytest.mark.parametrize(
    ("allowed", "path"),
    [
        ("/data/lake", "/data/lakes/in.parquet"),
        ("/data/lake", "/data/lake/../other/in.parquet"),
        ("/data/lake", "s3://data/lake/in"),
        ("s3://lake/in", "s3://lake/in/../out"),
        ("s3://lake/in", "s3://lake/inner"),
        ("s3://lake", "s3://lakes/in"),
        ("s3://lake", "gs://lake/in"),
        ("s3://lake", "simplecache::s3://lake/in"),
    ],
)
def test_a_spec_outside_of_the_roots(tmp_path, monkeypatch, allowed, path):
    monkeypatch.setenv(allowed_roots.ROOTS_VARIABLE, f"{allowed},{tmp_path}")
    file = write(tmp_path, input={"path": path, "time": "day"})
    with pytest.raises(InputError, match=r"flights.yaml: input.path: is outside .*EVENKEEL_ROOTS"):
        load_spec(file)


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ("{a,../../etc}/x", "a pattern"),
        ("o*t/etc", "a pattern"),
        ("o\\ut", "a pattern"),
        ("o[ut]t", "outside"),
        ("o?t", "outside"),
        ("*.parquet", None),
    ],
)
def test_no_pattern_leads_out_of_the_roots(tmp_path, monkeypatch, place, problem):
    lake = tmp_path / "lake"
    lake.mkdir()
    (lake / "out").symlink_to("/")
    (lake / "a.parquet").touch()
    state = {"flights": {"path": f"{lake}/s", "columns": {"n": {"merge": "count"}}}}
    asked = {"path": f"{lake}/{place}", "time": "day"}
    file = write(tmp_path, input=asked, registry=f"{lake}/r", state=state)
    assert load_spec(file).input.path == f"{lake}/{place}"
    monkeypatch.setenv(allowed_roots.ROOTS_VARIABLE, str(lake))
    if problem is None:
        assert load_spec(file).input.path == f"{lake}/{place}"
        return
    with pytest.raises(InputError, match=f"input.path: .*{problem}"):
        load_spec(file)


def test_roots_hold_for_state_registry_and_links(tmp_path, monkeypatch):
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "out").symlink_to("/")
    monkeypatch.setenv(allowed_roots.ROOTS_VARIABLE, str(tmp_path / "lake"))
    with pytest.raises(InputError, match=r"input.path: is outside"):
        load_spec(write(tmp_path))
    inside = {"input": {"path": "lake/in", "time": "day"}, "registry": "lake/registry"}
    state = {"flights": {"path": "lake/out/state", "columns": {"n": {"merge": "count"}}}}
    with pytest.raises(InputError, match=r"state.flights.path: is outside"):
        load_spec(write(tmp_path, **inside, state=state))
    state["flights"]["path"] = "lake/state"
    assert load_spec(write(tmp_path, **inside, state=state)).table == "flights"
    with pytest.raises(InputError, match=r"registry: is outside"):
        load_spec(write(tmp_path, **{**inside, "registry": "registry"}, state=state))
    monkeypatch.setenv(allowed_roots.ROOTS_VARIABLE, " ")
    assert load_spec(write(tmp_path)).table == "flights"
