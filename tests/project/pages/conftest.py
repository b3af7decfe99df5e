"""A reader of the docs, whose installation the pages and the examples share."""

import pytest

from tests.support.docs.reader import Reader


@pytest.fixture(scope="session")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Reader:
    return Reader.in_folder(tmp_path_factory.mktemp("made"))
