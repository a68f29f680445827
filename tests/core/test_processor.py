"""What a processor can compute is read as its system tells it, and said where it matters."""

import os
import subprocess
import sys

import pytest

from crosswind.core import processor
from crosswind.core.processor import (
    has_bfloat16,
    processor_name,
    slow_bfloat16,
    told_by_linux,
    vector_level,
)

ZEN_3 = (
    "processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: fpu sse4_2 avx avx2 fma f16c\nbugs\t\t:"
    " none\n"
)
SKYLAKE_SERVER = "flags\t\t: fpu avx2 avx512f avx512bw avx512vl\n"
COOPER_LAKE = "flags\t\t: fpu avx2 avx512f avx512_bf16\nflags\t\t: fpu avx2 avx512f avx512_bf16\n"
SAPPHIRE_RAPIDS = "flags\t\t: avx2 avx512f amx_bf16 amx_tile amx_int8\n"
LUNAR_LAKE = "flags\t\t: avx2 avx_vnni avx_ne_convert\n"
GRAVITON_2 = "processor\t: 0\nFeatures\t: fp asimd evtstrm aes crc32 atomics fphp asimdhp\n"
GRAVITON_3 = "Features\t: fp asimd sve i8mm bf16 dgh rng\n"


@pytest.mark.parametrize(
    ("text", "machine", "has"),
    [
        (ZEN_3, "x86_64", False),
        (SKYLAKE_SERVER, "x86_64", False),
        (COOPER_LAKE, "x86_64", True),
        (SAPPHIRE_RAPIDS, "x86_64", True),
        (LUNAR_LAKE, "x86_64", True),
        (GRAVITON_2, "aarch64", False),
        (GRAVITON_3, "aarch64", True),
        ("isa\t\t: rv64imafdc\n", "riscv64", None),
        ("", "x86_64", None),
    ],
)
def test_linux_tells_of_bfloat16(text: str, machine: str, has: bool | None) -> None:
    assert told_by_linux(text, machine) is has


@pytest.mark.parametrize(
    ("has", "limit", "slow"),
    [(False, "", True), (True, "", False), (None, "", False), (True, "avx2", True)],
)
def test_it_is_said_only_where_it_is_known(
    has, limit, slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`ONEDNN_MAX_CPU_ISA` keeps torch from instructions that the processor has; what is not known
    is no reason to warn."""
    monkeypatch.setattr(processor, "_instructions", lambda: has)
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", limit)
    assert bool(slow_bfloat16()) == slow == (has_bfloat16() is False)


def test_it_is_said_without_torch() -> None:
    code = (
        "import sys; from crosswind.core.processor import slow_bfloat16 as told; told();"
        " print('torch' in sys.modules)"
    )
    child = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ},
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    assert child.stdout == "False\n"


@pytest.mark.skipif(sys.platform == "darwin", reason="Linux says it in a file")
def test_the_widest_vectors_are_named() -> None:
    levels = [
        vector_level(text, "x86_64") for text in (ZEN_3, SKYLAKE_SERVER, "flags : avx fpu\n", "")
    ]
    assert levels == ["AVX2", "AVX-512", "AVX", None]
    assert [vector_level(text, "aarch64") for text in (GRAVITON_2, GRAVITON_3)] == ["NEON", "SVE"]
    assert processor_name(ZEN_3) == "AMD EPYC"
