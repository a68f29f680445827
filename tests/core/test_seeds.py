"""Named streams, stable hashes and keyed permutations."""

from __future__ import annotations

import numpy as np

from crosswind.core.seeds import hash64, permuted, seed_of, stream, torch_seed


def test_streams_depend_on_seed_and_every_name() -> None:
    first = stream(1, "a", 2).integers(0, 1 << 30, 4)
    assert (stream(1, "a", 2).integers(0, 1 << 30, 4) == first).all()
    for other_stream in (
        stream(2, "a", 2),
        stream(1, "b", 2),
        stream(1, "a", 3),
        stream(1, "a2"),
        stream(1, "a"),
    ):
        assert not (other_stream.integers(0, 1 << 30, 4) == first).all()


def test_values_are_fixed_for_all_time() -> None:
    # Results in stores depend on these numbers: a change here changes every study's draws.
    assert seed_of(0, "order") == 11410290228893546531
    assert torch_seed(5, "weights") == 4247665991186286894
    assert hash64(np.arange(2), 1).tolist() == [6238072747940578789, 10451216379200822465]


def test_hash_has_no_collisions_and_depends_on_the_key() -> None:
    ids = np.arange(100_000)
    first = hash64(ids, 1)
    assert len(np.unique(first)) == ids.size
    assert (first != hash64(ids, 2)).all()
    assert abs(float((first >> np.uint64(63)).mean()) - 0.5) < 0.01


def test_permuted_is_a_permutation_of_every_size() -> None:
    for n in (*range(1, 40), 64, 65, 256, 257, 1000, 4097):
        image = permuted(np.arange(n), np.full(n, n), np.full(n, 9, dtype=np.uint64))
        assert sorted(image.tolist()) == list(range(n))


def test_permuted_mixes_sizes_in_one_call_and_takes_nothing() -> None:
    sizes = np.array([1, 3, 256, 257, 1000, 2**40])
    keys = np.array([4, 5, 6, 7, 8, 9], dtype=np.uint64)
    together = permuted(np.zeros(6, dtype=np.int64), sizes, keys)
    alone = [
        int(permuted(np.zeros(1, dtype=np.int64), sizes[i : i + 1], keys[i : i + 1])[0])
        for i in range(6)
    ]
    assert together.tolist() == alone
    assert (
        permuted(
            np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint64)
        ).size
        == 0
    )


def test_permuted_draws_pairs_evenly() -> None:
    """20,000 keys, the first two of 5: 20 ordered pairs, 1,000 expected each; chi-square(19) is
    under 43.8 with p = 0.999."""
    keys = np.array([seed_of(j, "pair") for j in range(20_000)], dtype=np.uint64)
    sizes = np.full(keys.size, 5)
    first = permuted(np.zeros(keys.size, dtype=np.int64), sizes, keys)
    second = permuted(np.ones(keys.size, dtype=np.int64), sizes, keys)
    counts = np.bincount(first * 5 + second, minlength=25).reshape(5, 5)
    assert np.trace(counts) == 0
    off = counts[~np.eye(5, dtype=bool)]
    assert float(((off - 1000.0) ** 2 / 1000.0).sum()) < 43.8


def test_permuted_draws_triples_evenly() -> None:
    """60,000 keys, the first three of 6: 120 ordered triples, 500 expected each; chi-square(119) is
    under 172.0 with p = 0.999."""
    keys = hash64(np.arange(60_000), 3)
    sizes = np.full(keys.size, 6)
    images = [permuted(np.full(keys.size, position), sizes, keys) for position in range(3)]
    counts = np.bincount(images[0] * 36 + images[1] * 6 + images[2], minlength=216)
    assert (counts > 0).sum() == 120
    assert float(((counts[counts > 0] - 500.0) ** 2 / 500.0).sum()) < 172.0
