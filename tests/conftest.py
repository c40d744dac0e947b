"""What every test starts from."""

import os
import signal
from collections.abc import Iterator

import jaxtyping
import numpy as np
import pytest
import torch
from beartype.claw import beartype_packages
from hypothesis import settings

from type_checker import LIKE_MYPY, WITHOUT_SHAPES

beartype_packages([f"fastweights.{name}" for name in WITHOUT_SHAPES], conf=LIKE_MYPY)

# The ordinary run draws the same cases every time; HYPOTHESIS_PROFILE=explore looks for new ones.
settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

# A shell that starts the tests in the background leaves Ctrl-C ignored, here and in every process started from here.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Triton's interpreter computes with numpy, which warns where numbers overflow; a GPU is silent.
if os.environ.get("TRITON_INTERPRET") == "1":
    np.seterr(all="ignore")


@pytest.fixture(autouse=True)
def _same_random_numbers() -> None:
    torch.manual_seed(0)


@pytest.fixture
def without_shape_checks() -> Iterator[None]:
    """For tests of the library's own errors, before which the shape annotations would speak in a test run."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """For thousands of small problems: a second thread costs more than it brings, much more on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
