"""Arrays of an .npz come back as NumPy itself reads them; what is torn or runs code is refused."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as some

from partitioning.errors import DamagedError
from partitioning.workload.npz import unpack
from partitioning.workload.profile import Sketch

KINDS = st.sampled_from(["<f8", ">f8", "<i4", "<u8", "|b1", "<U7"])


def packed(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


@given(some.arrays(KINDS, some.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)))
def test_every_array_is_that_of_numpy(array: np.ndarray[Any, Any]) -> None:
    data = packed(plain=array, by_column=np.asfortranarray(array))
    with np.load(io.BytesIO(data)) as expected:
        for name, found in unpack(data, "here").items():
            assert found.dtype == expected[name].dtype and found.shape == expected[name].shape
            np.testing.assert_array_equal(found, expected[name])
            assert not found.flags.writeable


def test_an_array_of_python_objects_is_refused() -> None:
    with pytest.raises(DamagedError, match="Python objects"):
        unpack(packed(load=np.array([{}], dtype=object)), "here")


@pytest.mark.parametrize("change", [-1, 1])
def test_an_array_of_another_length_than_its_head_says_is_refused(change: int) -> None:
    buffer = io.BytesIO(packed(load=np.arange(3.0)))
    with zipfile.ZipFile(buffer) as archive:
        array = archive.read("load.npy")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("load.npy", array[:change] if change < 0 else array + b"0" * change)
    said = f"{24 + change} bytes of an array, expected 3 x float64"
    with pytest.raises(DamagedError, match=said):
        unpack(buffer.getvalue(), "here")


@pytest.mark.parametrize(
    ("names", "json"),
    [
        (["EWR", "JFK"], False),
        ([], False),
        (["a\0", "\0", "é"], True),
        (["x" * 100_000, *(f"key {i}" for i in range(1, 500))], True),
        (["key"] * 400_000, False),
    ],
)
def test_names_come_back_as_they_were_and_take_no_more_than_they_need(
    names: list[str], json: bool
) -> None:
    hashes, load = np.arange(len(names), dtype=np.int64), np.ones(len(names))
    sketch = Sketch(np.ones(4), hashes, load, tuple(names), 0.0, len(names))
    data = sketch.to_bytes()
    assert Sketch.from_bytes(data).heavy_names == tuple(names)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert ("heavy_names_json.npy" in archive.namelist()) == json
        assert max(file.file_size for file in archive.infolist()) < 8_000_000
