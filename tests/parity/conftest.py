"""What every test may rely on: a known state of the library before it, and the same state after it."""

import pytest
import torch

import frn


@pytest.fixture(autouse=True)
def unchanged_settings():
    """One thread: results do not depend on it (test_properties.py), and many small operators run faster so."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    yield
    frn.force_implementation(None)
