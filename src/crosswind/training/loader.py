"""Batches of training rows and of evaluation rows, out of memory where it holds their inputs, else
read ahead.

Which rows a step sees is a function of seed, stage and step alone, so a run goes on from any step
without a sampler's state.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crosswind.core.errors import DataError
from crosswind.core.seeds import seed_of
from crosswind.data.dataset import AttributedDataset
from crosswind.data.derive import render, split_rows, training_keys, visit_values
from crosswind.data.resident import ResidentRows
from crosswind.methods.base import Batch, Pair, Partners, Stage
from crosswind.models.build import normalised
from crosswind.models.networks.tokens import text_lengths
from crosswind.training.inputs import RowInputs
from crosswind.training.pairs import PartnerRows
from crosswind.training.samplers import Lengths, Order, even_groups, row_weights
from crosswind.training.settings import TrainingSettings
from crosswind.transforms.layout import on_device

if TYPE_CHECKING:
    from crosswind.shifts.split import RowSet
    from crosswind.transforms.base import Transform

AHEAD = 2
"""Batches that are read before they are needed, where inputs are not held in memory."""

DTYPES = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "bf16": torch.float32,
    "fp64": torch.float64,
}


def _channels_first(x: Tensor) -> Tensor:
    if x.ndim == 4:
        return x.permute(0, 3, 1, 2)
    return x


class _SeenRows(NamedTuple):
    """The rows of a batch: places in the training set `rows` under `values` at `visits`, and the
    partners; int64 [batch]."""

    members: NDArray[np.int64]
    rows: NDArray[np.int64]
    visits: NDArray[np.int64]
    values: NDArray[np.int64]
    epoch: int
    partners: tuple[NDArray[np.int64], NDArray[np.int64]] | None
    """Their rows and values."""

    def gathered(self, by: str) -> NDArray[np.int64]:
        """The rows whose inputs are read: partners by class are other rows."""
        if self.partners is None or by != "class":
            return self.rows
        return np.concatenate([self.rows, self.partners[0]])


class TrainingRows:
    """The training set, gathered into batches from inputs of base rows that are held in memory as
    far as they fit.

    `begin` sets the stage; `batch(step)` is then a function of the step. `views` and `partners`:
    see `Method`. `waited`: seconds spent so far on waiting for inputs that were not there yet.
    Raises `DataError` for an empty training set and for inputs that cannot be read.
    """

    def __init__(
        self,
        rows: RowSet,
        dataset: AttributedDataset,
        settings: TrainingSettings,
        seed: int,
        sampler: str,
        views: tuple[Transform | None, ...] = (None,),
        partners: Partners | None = None,
    ) -> None:
        if len(rows.rows) == 0:
            raise DataError("the training set has no rows")
        self.n = len(rows.rows)
        self._rows = rows
        self._dataset = dataset
        self._settings = settings
        self._seed = seed
        self._sampler = sampler
        self._views = views
        self._partners = partners
        self._device = torch.device(settings.device)
        # Where a value is drawn at every visit the rows are base rows, otherwise virtual ones.
        base: NDArray[np.int64] = rows.rows
        self._values: NDArray[np.int64] | None = None
        if rows.visit_law is None:
            base, self._values = split_rows(dataset, rows.rows)
        self._ids = dataset.ids[base]
        distinct, self._place = np.unique(base, return_inverse=True)
        # [n, h, w, c] in memory: one gather gives a channels-last batch without a second copy.
        resident = ResidentRows(dataset, distinct, evaluation=False)
        resident.bring()
        self._inputs = RowInputs(resident, self._device)
        self._inputs.copy_to_device()
        self._coming: dict[int, Future[NDArray[Any]]] = {}
        self._lengths: NDArray[np.int64] | None = None
        if settings.length_pool and dataset.check_inputs().kind == "tokens":
            self._lengths = self._inputs.lengths()
            if self._lengths is None:
                tokens = resident.take(np.arange(len(distinct)))
                self._lengths = text_lengths(tokens)
            self._lengths = self._lengths[self._place]
        self.y = self._on_device(rows.label)
        self.group = self._on_device(rows.group)
        if rows.environment is None:
            self.environment = None
        else:
            self.environment = self._on_device(rows.environment)
        self.begin(Stage())

    @property
    def waited(self) -> float:
        """Seconds."""
        return self._inputs.waited

    def begin(self, stage: Stage) -> None:
        """Make the order of a stage, its weights, copies and extra examples included."""
        self._coming.clear()
        self._stage = stage
        self._stage_seed = seed_of(self._seed, "visits", stage.name)
        if stage.extra is None:
            extra_parents = []
        else:
            extra_parents = [stage.extra.parents.cpu().numpy().astype(np.int64)]
        self._parents = np.concatenate([np.arange(self.n), *extra_parents])
        weight = np.asarray(self._rows.weight, dtype=np.float64)
        if stage.weights is not None:
            weight = weight * stage.weights.cpu().double().numpy()
        if stage.copies is None:
            copies = np.ones(self.n, dtype=np.int64)
        else:
            copies = stage.copies.cpu().numpy().astype(np.int64)
        members = np.repeat(np.arange(len(self._parents)), copies[self._parents])
        environment = self._rows.environment
        law = self._rows.visit_law
        step = self._rows.visit_step[1]
        self._law = law
        self._codes = None
        # A row that may carry several environments stands in several orders, and once in an epoch.
        self._epoch = len(members)
        if self._sampler == "per-environment" and environment is not None:
            if law is None or not step:
                law = np.ones((self.n, 1))
            carried = environment[:, None] + step * np.arange(
                law.shape[1]
            )  # by each row under each of its values
            self._codes = np.unique(carried[law > 0])
            # How likely a visit of each row is to be one of the environment; its value is then the
            # one that makes it so.
            likely = [np.where(carried == code, law, 0.0).sum(axis=1) for code in self._codes]
            self._orders = [
                self._order(
                    members[share[self._parents[members]] > 0], weight * share, "epoch", int(code)
                )
                for code, share in zip(self._codes, likely, strict=True)
            ]
        else:
            self._orders = [self._order(members, weight, self._sampler)]
        if self._partners is not None:
            self._partner_rows = PartnerRows(self._rows, self._law, self._ids, self._partners)
        share, remainder = divmod(self._settings.batch, len(self._orders))
        self._shares = [
            share + (order_number < remainder) for order_number in range(len(self._orders))
        ]

    def _order(
        self, members: NDArray[np.int64], weight: NDArray[np.float64], sampler: str, *code: int
    ) -> Order:
        parents = self._parents[members]
        if not weight[parents].sum() > 0:
            of_environment = ""
            if code:
                of_environment = f" of environment {self._rows.environment_names[code[0]]!r}"
            stage = self._stage.name
            # Of the study's sampler alone `check_run` speaks before, by name.
            raise DataError(
                f"every training row{of_environment} has weight 0 by the study's sampler and by the"
                f" method's stage {stage!r}"
            )
        weight = weight[parents]
        group = self._rows.group[parents]
        if sampler == "balanced" and self._law is not None and self._rows.visit_step[0]:
            # Groups are those of a row under a value: their shares are kept by the rows' weights
            # and the laws of their values.
            step = self._rows.visit_step[0]
            weight, law = even_groups(weight, group, self._law[parents], step)
            self._law = self._law.copy()
            sampler = "epoch"
            self._law[parents] = law
        lengths = None
        if self._lengths is not None and not code:
            lengths = Lengths(
                self._lengths[parents], self._settings.batch, self._settings.length_pool
            )
        weights = row_weights(weight, group, sampler)
        return Order(
            members, weights, self._seed, "order", self._stage.name, *code, lengths=lengths
        )

    def rows_of(self, step: int) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        """The members of a batch, int64 [batch]; how often each was visited before, int64 [batch];
        and the epoch of the first."""
        taken = []
        visits = []
        for order, share in zip(self._orders, self._shares, strict=True):
            start = step * share
            taken.append(order.take(start, share))
            positions = np.arange(start, start + share)
            # A row may be drawn twice in one block of draws: its place in the order is then what
            # tells its visits apart.
            visits.append(
                positions // order.size
                if order.permuted and self._stage.copies is None
                else positions
            )
        epoch = step * self._settings.batch // self._epoch
        return (np.concatenate(taken), np.concatenate(visits), epoch)

    def batch(self, step: int, length: int) -> Batch:
        """The batch of a step of the stage, which has `length` steps."""
        visits = self._seen(step)
        n = self._settings.batch
        where = on_device(visits.rows, self._device)
        extra = self._stage.extra
        extra_tensors = (None, None) if extra is None else (extra.x, extra.y)
        # Both members of a pair are of one tensor: the first half is the batch.
        all_views, *other_views = self._views_of(self._read(step, visits, length), visits)
        x, *other_views = (
            self._with_extra(view[:n], visits.members, extra_tensors[0])
            for view in (all_views, *other_views)
        )
        y = self._with_extra(self.y[where], visits.members, extra_tensors[1])
        group = self.group[where]
        environment = self._environment_of(where, visits.values)
        if self._rows.visit_law is not None:
            group = group + on_device(visits.values, self._device) * self._rows.visit_step[0]
        pair = None
        if visits.partners is not None:
            partner = on_device(visits.partners[0], self._device)
            shown = self._environment_of(partner, visits.partners[1])
            assert shown is not None
            pair = Pair(all_views[n:], partner, shown)
        progress = step / max(length, 1)
        when: dict[str, Any] = {
            "step": step,
            "epoch": visits.epoch,
            "progress": progress,
            "steps": length,
        }
        return Batch(
            x,
            y,
            where,
            group,
            environment,
            pair,
            views=tuple(other_views),
            stage=self._stage.name,
            **when,
        )

    def _seen(self, step: int) -> _SeenRows:
        members, visits, epoch = self.rows_of(step)
        rows = self._parents[members]
        values, visits = self._values_at(rows, visits, self._stage_seed)
        partners = None
        if self._partners is not None:
            partner, drawn = self._partner_rows.of(rows, values, visits, self._stage_seed)
            partners = partner, drawn if self._values is None else self._values[partner]
        return _SeenRows(members, rows, visits, values, epoch, partners)

    def _environment_of(self, where: Tensor, values: NDArray[np.int64]) -> Tensor | None:
        if self.environment is None or self._rows.visit_law is None:
            if self.environment is None:
                return None
            return self.environment[where]
        drawn_values = on_device(values, self._device)
        return self.environment[where] + drawn_values * self._rows.visit_step[1]

    def _values_at(
        self, rows: NDArray[np.int64], visits: NDArray[np.int64], seed: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The value that each row of a batch is seen under, and the number of the visit that draws
        its noise; int64 [batch]."""
        law = self._law
        step = self._rows.visit_step[1]
        if law is None:
            assert self._values is not None
            return self._values[rows], visits
        if self._codes is None or not step:
            ids = self._ids[rows]
            return visit_values(law[rows], ids, visits, seed), visits
        # Equal shares of environments in every batch leave nothing to draw at the visit: the order
        # that gives a row says which environment it stands for, and so under which value. Over many
        # visits of an order rows come by their weight and the law's probability of that value, so
        # within an environment rows and values are those that drawing at every visit would show. A
        # row in the orders of several environments is seen by each of them: their visits are told
        # apart, or its noise repeats.
        assert self._rows.environment is not None
        drawn_codes = np.repeat(self._codes, self._shares)
        values = (drawn_codes - self._rows.environment[rows]) // step
        return values, visits * law.shape[1] + values

    def _read(self, step: int, visits: _SeenRows, length: int) -> Tensor:
        """The inputs of a batch and of partners that are other rows in one gather, images uint8 [n,
        c, h, w].

        Where they have to be read, those of the next steps are begun too.
        """
        by = "" if self._partners is None else self._partners.by
        is_whole = self._stage.extra is not None
        if self._inputs.held():
            return _channels_first(
                self._inputs.take(self._place[visits.gathered(by)], whole=is_whole)
            )
        steps_ahead = range(step, max(step + 1, min(step + 1 + AHEAD, length)))
        self._coming = {
            number: coming for number, coming in self._coming.items() if number in steps_ahead
        }
        for number in steps_ahead:
            if number not in self._coming:
                rows = (visits if number == step else self._seen(number)).gathered(by)
                self._coming[number] = self._inputs.ahead(self._place[rows])
        return _channels_first(self._inputs.arrived(self._coming.pop(step), whole=is_whole))

    def _views_of(self, x: Tensor, visits: _SeenRows) -> Iterator[Tensor]:
        """The views of the rows with inputs `x`, each as a model takes it; where there are
        partners, theirs after the rows'."""
        values = visits.values
        if visits.partners is not None:
            assert self._partners is not None
            by = self._partners.by
            crop = self._partners.crop
            if crop is not None and by == "view":
                x = crop(x, self._keys(visits, "crop", alike=True))
            if by != "class":
                x = torch.cat([x, x])
            if crop is not None and by != "view":
                x = crop(x, self._keys(visits, "crop"))
            values = np.concatenate([values, visits.partners[1]])
        if self._dataset.derived is not None:
            x = render(self._dataset, x, values, self._keys(visits))
        for number, view in enumerate(self._views):
            if view is None:
                changed = x
            else:
                changed = view(x, self._keys(visits, "view", number))
            yield normalised(
                changed, DTYPES[self._settings.precision], self._settings.channels_last
            )

    def _keys(self, visits: _SeenRows, *names: object, alike: bool = False) -> NDArray[np.uint64]:
        """The rows' keys of what is named, and those of their partners, which may be `alike`."""
        seeds = [self._stage_seed]
        if visits.partners is not None and not alike:
            seeds.append(seed_of(self._stage_seed, "partner"))
        if names:
            seeds = [seed_of(seed, *names) for seed in seeds]
        ids = self._ids[visits.rows]
        return np.concatenate([training_keys(ids, visits.visits, seed) for seed in seeds])

    def _with_extra(
        self, values: Tensor, members: NDArray[np.int64], extra: Tensor | None
    ) -> Tensor:
        """`values` of a batch with those of the stage's `extra` examples at their places: inputs or
        labels."""
        if extra is not None and len(positions := np.flatnonzero(members >= self.n)):
            extra_rows = torch.from_numpy(members[positions] - self.n)
            extra_values = extra[extra_rows].to(self._device)
            if values.is_floating_point():
                extra_values = normalised(extra_values, values.dtype, self._settings.channels_last)
            values[on_device(positions, self._device)] = extra_values
        return values

    def _on_device(self, values: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(np.array(values, dtype=np.int64)).to(self._device)


class EvaluationRows:
    """Rows to predict, as inputs of a fixed number a batch, never augmented; noise of derived
    attributes as in every evaluation.

    Inputs are held in memory as far as they fit: `resident` renders them at once, otherwise each
    when it is first asked for. `waited`: seconds spent so far on waiting for inputs that were not
    there yet.
    """

    def __init__(
        self,
        rows: RowSet,
        dataset: AttributedDataset,
        settings: TrainingSettings,
        *,
        resident: bool,
    ) -> None:
        self.rows = rows
        self.dataset = dataset
        self._settings = settings
        # Training rows without a value of their own are shown under their likeliest one.
        law = rows.visit_law
        if law is None:
            self._virtual = rows.rows
        else:
            self._virtual = rows.rows * dataset.n_derived + law.argmax(axis=1)
        self._held = ResidentRows(dataset, self._virtual, evaluation=True)
        self._inputs = RowInputs(self._held, torch.device(settings.device))
        if resident:
            self._held.bring()
            self._inputs.copy_to_device()

    @property
    def waited(self) -> float:
        """Seconds."""
        return self._inputs.waited

    def by_length(self, positions: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """The order of `positions` (None: all) in which texts grow longer, so that a batch has
        little
        padding; else their own."""
        if positions is None:
            positions = np.arange(len(self.rows.rows))
        lengths = self._inputs.lengths()
        if lengths is None:
            return np.arange(len(positions))
        return np.argsort(lengths[positions], kind="stable")

    def batches(
        self, positions: NDArray[np.int64] | None = None, *, padded: bool
    ) -> Iterator[tuple[Tensor, int]]:
        """(x, n) for the rows at `positions` (None: all), in order; `padded` repeats the last row
        until the batch is full.

        Batches of one size keep a row's numbers independent of how many rows there are. Texts are
        cut to the longest of a padded batch.
        """
        if positions is None:
            positions = np.arange(len(self.rows.rows))
        size = self._settings.evaluation_batch
        self._held.bring(positions)
        position_batches = []
        for start in range(0, len(positions), size):
            position_batches.append(positions[start : start + size])
        full = [
            (
                np.concatenate(
                    [batch_positions, np.repeat(batch_positions[-1:], size - len(batch_positions))]
                )
                if padded
                else batch_positions
            )
            for batch_positions in position_batches
        ]
        for batch_positions, x in zip(
            position_batches, self._inputs.each(full, whole=not padded), strict=True
        ):
            yield (
                normalised(
                    _channels_first(x),
                    DTYPES[self._settings.precision],
                    self._settings.channels_last,
                ),
                len(batch_positions),
            )

    def images(self, positions: NDArray[np.int64]) -> Tensor:
        """The pictures at `positions` as they are kept: uint8 [n, c, h, w] in channels-last memory,
        on
        the run's device."""
        self._held.bring(positions)
        (x,) = self._inputs.each([positions], whole=True)
        return x.permute(0, 3, 1, 2)

    def values_of(self, attribute: str) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        """The code of an attribute for every row, and the names of its values."""
        base, derived = split_rows(self.dataset, self._virtual)
        attribute_of = self.dataset.attribute(attribute)
        if self.dataset.derived is not None and self.dataset.derived.name == attribute:
            return derived, attribute_of.values
        return self.dataset.table.column(attribute)[base].astype(np.int64), attribute_of.values
