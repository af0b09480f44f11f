"""What every test may rely on: a known state of the library before it, and the same state after it."""

import os

# On some virtual machines that show AMX a bfloat16 convolution dies with an illegal instruction. Before torch starts.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

import pytest  # noqa: E402
import torch  # noqa: E402

import frn  # noqa: E402


@pytest.fixture(autouse=True)
def unchanged_settings():
    """One thread: results do not depend on it (test_properties.py), and many small operators run faster so."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    yield
    frn.force_implementation(None)
