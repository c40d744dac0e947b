"""The environment of a run, which its result depends on: versions, processor, threads, backends."""

import os
import platform
import subprocess
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from fastweights.kernels.native.library import ONEDNN_LIMIT, tiles_are_missing
from fastweights.kernels.products import mkl_falls_short
from fastweights.memory import Call, backends, choose_backend

REQUIRED = ("fastweights", "torch", "numpy", "safetensors")
EXTRAS = {
    "transformers": "hf",
    "datasets": "data",
    "sacrebleu": "mt",
    "lm-eval": "eval",
    "tensorboard": "track",
    "distributed": "cluster",
}
"""Packages that are imported only where they are used, and the extra that installs each."""


@dataclass(frozen=True)
class Environment:
    """The machine and the installed versions."""

    python: str
    system: str
    processor: str
    instructions: str
    cores: int
    threads: int
    gpu: str | None
    packages: dict[str, str | None]
    commit: str | None = None
    """The commit of the work tree, with "+" if files differ from it."""

    @classmethod
    def here(cls) -> "Environment":
        """The environment of this process."""
        return cls(
            python=platform.python_version(),
            system=f"{platform.system()} {platform.release()} {platform.machine()}",
            processor=processor_name(),
            instructions=torch.backends.cpu.get_cpu_capability(),
            cores=available_cores(),
            threads=torch.get_num_threads(),
            gpu=torch.cuda.get_device_name() if torch.cuda.is_available() else None,
            # torch itself knows whether it is a build for a CPU or a GPU.
            packages={name: installed_version(name) for name in (*REQUIRED, *EXTRAS)}
            | {"torch": str(torch.__version__)},
            commit=source_commit(),
        )


def available_cores() -> int:
    """How many processes can run at the same time."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def source_commit() -> str | None:
    """The commit of the work tree that this file belongs to, with "+" if files differ from it; None if unknown."""
    try:
        commit = _git("rev-parse", "--short=12", "HEAD")
        changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".")
    except (OSError, subprocess.SubprocessError):
        return None
    return commit + ("+" if changed else "")


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(Path(__file__).resolve().parents[1]), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()  # noqa: S603


def installed_version(package: str) -> str | None:
    """The version of an installed package, without importing it."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def processor_name() -> str:
    """The model name of the processor, as far as the system tells it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def version_rows(environment: Environment) -> list[tuple[str, str]]:
    """Name and version of everything that matters, with a hint for what is missing."""
    rows = [("python", environment.python)]
    for name, found in environment.packages.items():
        hint = f"not installed; pip install 'fastweights[{EXTRAS[name]}]'" if name in EXTRAS else "not installed"
        rows.append((name, found or hint))
    return rows


def machine_rows(environment: Environment) -> list[tuple[str, str]]:
    """The machine that the program runs on."""
    rows = [
        ("system", environment.system),
        ("processor", f"{environment.processor} ({environment.instructions})"),
        ("cores", f"{environment.cores} available, torch uses {environment.threads} threads"),
        ("gpu", environment.gpu or "none that torch can use"),
    ]
    if tiles_are_missing():
        rows.append(("tiles", f"AMX is announced but missing; {ONEDNN_LIMIT} is {os.environ.get(ONEDNN_LIMIT)}"))
    if mkl_falls_short():
        rows.append(("products", "oneDNN's in runs, since MKL's do without this processor's AVX-512"))
    return rows


def backend_rows() -> list[tuple[str, str, str]]:
    """Every backend: whether it can run and, if so, what `auto` uses it for; otherwise why not."""
    rows = []
    cases = {"sequences": 2, "single steps": 1}
    cpu = torch.device("cpu")
    taken = {case: choose_backend("auto", Call(cpu, torch.float32, steps)) for case, steps in cases.items()}
    for name, status in backends().items():
        served = " and ".join(case for case, choice in taken.items() if choice == name)
        note = f"auto takes it for {served} on this CPU" if served else status.reason
        rows.append((name, "available" if status.available else "missing", note))
    return rows
