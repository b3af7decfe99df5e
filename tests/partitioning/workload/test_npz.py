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
