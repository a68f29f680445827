"""A network in an ONNX file, run by ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError, one_line
from crosswind.core.knobs import Form, knob
from crosswind.core.registry import register
from crosswind.data.dataset import AttributedDataset
from crosswind.models.given.companions import companions, stamp
from crosswind.models.given.onnx_values import (
    check_sides,
    filled,
    fixed_rows,
    named_inputs,
    read_outputs,
)
from crosswind.models.given.outside import Answers, Outside, asked, output_classes
from crosswind.models.given.patience import PatientSession, patiently

if TYPE_CHECKING:
    from crosswind.core.types import InputSpec
    from crosswind.shifts.split import RowSet

MEANS, DEVIATIONS = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of ImageNet's channels, for values in [0, 1]."""


@register("onnx", kind="model")
@dataclass(frozen=True)
class Onnx(Outside):
    """A network in an ONNX file (https://onnx.ai): its first input takes a batch of images, an
    output gives logits or labels.

    Logits are float [n, k] in the order of the classes, labels integers [n]; of scikit-learn's
    labels and probabilities the probabilities are read. `scale` and `layout` are of images;
    features are given as numbers [n, width], or each column to an input of its own where the
    network has as many, a category as its text; texts are given as strings [n]. Numbers are of the kind that the network takes,
    and a batch of a fixed size is filled with its last row. It runs on the processor with one
    thread.
    """

    path: str = knob(doc="ONNX file")
    scale: str = knob(
        "centred",
        domain="{centred, unit, imagenet, bytes}",
        doc="what it takes of a pixel: (-1, 1), [0, 1], by ImageNet's channels, or 0 to 255",
    )
    layout: str = knob("nchw", domain="{nchw, nhwc}", doc="the order of its input's axes")
    batch: int = knob(
        256, domain="[1, inf)", doc="images that it is given at once, where it takes any number"
    )
    timeout: float = knob(
        60.0,
        domain="(0, inf)",
        doc="seconds that its first row may take, or its first batch if that has a fixed size",
    )
    output: str | None = knob(
        None, doc="the output that holds the logits; default: the one with a number for every class"
    )
    classes: list[Any] | None = knob(
        None,
        doc=(
            "the classes in the order of its outputs; default: of the study, numbers by size,"
            " others sorted"
        ),
    )

    version = 2
    outputs_in_order = True
    built = Form(trained=False, files=("path",), apart=("timeout",))
    extra = "onnx"

    def fits(self, input: InputSpec, class_names: Sequence[str]) -> None:
        """See `Outside.fits`: `classes` are those of the data, and weights beside the file are
        there."""
        output_classes(self, class_names)
        check_weights(Path(self.path))

    def answer(
        self, rows: RowSet, dataset: AttributedDataset, class_names: Sequence[str]
    ) -> Answers:
        """See `Outside.answer`."""
        name = Path(self.path).name
        session = ready_session(self.path)
        graph_inputs = session.session.get_inputs()
        names = [graph_output.name for graph_output in session.session.get_outputs()]
        fixed = fixed_rows(graph_inputs[0].shape)
        images = dataset.check_inputs().kind == "image"

        def run(x: NDArray[Any]) -> Any:
            if images:
                scaled = self._scaled(x)
                check_sides(scaled.shape, graph_inputs[0].shape, self.layout, name)
                batches = named_inputs(scaled, graph_inputs, self.scale, name)
            else:
                batches = named_inputs(x, graph_inputs, None, name, dataset.input_columns)
            if fixed is not None:
                batches = {key: filled(batch, fixed) for key, batch in batches.items()}
            try:
                arrays = session.run(batches, self.timeout)
            except DataError:
                raise
            except Exception as error:
                raise DataError(
                    f"{name} does not take these inputs ({one_line(str(error), 200)})"
                ) from None
            return read_outputs(
                dict(zip(names, arrays, strict=True)), len(x), class_names, self.output, name
            )

        by_place = self.classes is not None
        return asked(run, rows, dataset, class_names, fixed or self.batch, name, by_place=by_place)

    def _scaled(self, x: NDArray[np.uint8]) -> NDArray[Any]:
        if self.layout == "nchw":
            x = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
        if self.scale == "bytes":
            return x
        if self.scale == "centred":
            return x * np.float32(2 / 255) - np.float32(1)
        unit = x * np.float32(1 / 255)
        if self.scale == "unit":
            return unit
        if self.layout == "nchw":
            shape = (1, -1, 1, 1)
        else:
            shape = (1, 1, 1, -1)
        means = np.array(MEANS, dtype=np.float32).reshape(shape)
        deviations = np.array(DEVIATIONS, dtype=np.float32).reshape(shape)
        return (unit - means) / deviations


def ready_session(path: str) -> PatientSession:
    """A network's file made ready to run. Raises `DataError` for a file that is none, and for
    weights beside it that are not there or cut off."""
    file = Path(path)
    try:
        files = stamp(file, True)
    except OSError as error:
        problem = f"{file.name} cannot be read ({error.strerror or error})"
        raise DataError(problem) from None
    check_weights(file)
    return _session(path, files)


def check_weights(file: Path) -> None:
    """Refuse a network whose weights should lie in files beside it that are not there. Raises
    `DataError`."""
    try:
        missing = [name for name, beside in companions(file, True).items() if not beside.is_file()]
    except OSError:  # said where the file is read
        return
    if missing:
        raise DataError(
            f"{file.name} keeps its weights in {missing[0]!r} beside it, and there is no such file;"
            " copy both into one folder, or export the network as one file"
        )


@lru_cache(maxsize=2)
def _session(path: str, files: tuple[tuple[str, int, int], ...]) -> PatientSession:
    """The file made ready: once for all sets that it is asked about. `files`: its `stamp`, with the
    weights that lie outside it."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4  # what fails is raised too

    def load() -> Any:
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def give_up() -> None:
        if hasattr(options, "set_load_cancellation_flag"):  # older ones load to the end
            options.set_load_cancellation_flag(True)

    try:
        loaded = patiently(load, give_up, None)
        return PatientSession(loaded, Path(path).name)
    except Exception as error:  # its own kinds, a dozen of them
        beside = [file for file, _, _ in files[1:]]
        if beside and "out of bounds" in str(error):
            raise DataError(
                f"{Path(path).name} keeps its weights in {Path(beside[0]).name!r} beside it, which"
                " ends before they do: it was cut off, or is of another network; copy it again"
            ) from None
        problem = f"{Path(path).name} cannot be read as ONNX ({one_line(str(error), 200)})"
        raise DataError(problem) from None
