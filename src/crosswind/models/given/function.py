"""A Python function that answers."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from crosswind.core.errors import InputError, one_line
from crosswind.core.knobs import Form, knob
from crosswind.core.registry import register
from crosswind.data.dataset import AttributedDataset
from crosswind.models.given.answering import answering_function
from crosswind.models.given.companions import stamp
from crosswind.models.given.outside import Answers, Outside, asked, output_classes

if TYPE_CHECKING:
    from crosswind.core.types import InputSpec
    from crosswind.shifts.split import RowSet


@register("callable", kind="model")
@dataclass(frozen=True)
class Function(Outside):
    """A Python function that is given a batch of inputs and returns logits or labels.

    It takes images as a numpy array uint8 [n, h, w, c], features as float32 [n, width], or texts as
    a list of n strings. It returns float [n, k] in the order of the classes, or labels [n] by
    number or by name. A fitted estimator, as scikit-learn and libraries like it have them, answers
    by its `predict_proba`, else its `predict`, in the order of its `classes_`. The module is a
    file, beside the study or by its path, or one that is installed. Jobs are done anew when its
    file has changed, a module of its folder that it imports, or `version`. Raise `version` when
    something else has changed that the function reads, such as data or an installed package.
    """

    function: str = knob(doc="module:function, or FILE.py:function")
    batch: int = knob(256, domain="[1, inf)", doc="inputs that it is given at once")
    version: int = knob(
        1, domain="[0, inf)", doc="of what the function reads besides the modules of its folder"
    )
    classes: list[Any] | None = knob(
        None,
        doc=(
            "the classes in the order of what it returns; default: of the study, numbers by size,"
            " others sorted"
        ),
    )

    outputs_in_order = True
    built = Form(trained=False, files=("function",))
    unread = (
        "what its function reads beside the modules of its folder (data, weights, installed"
        " packages) is not part of a run's key; raise version when that changes"
    )

    def fits(self, input: InputSpec, class_names: Sequence[str]) -> None:
        """See `Outside.fits`: `classes` are those of the data."""
        output_classes(self, class_names)

    def answer(
        self, rows: RowSet, dataset: AttributedDataset, class_names: Sequence[str]
    ) -> Answers:
        """See `Outside.answer`."""
        spec = dataset.check_inputs()
        answering = load_function(self.function)
        if self.classes is not None and hasattr(answering, "classes_"):
            problem = "is for functions; the estimator knows its classes (classes_): leave it out"
            raise InputError("model.classes", problem)
        function = answering_function(answering, class_names, dataset.input_columns)
        asked_function = (lambda x: function(x.tolist())) if spec.dtype == object else function
        by_place = self.classes is not None
        return asked(
            asked_function, rows, dataset, class_names, self.batch, self.function, by_place=by_place
        )


def load_function(name: str) -> Callable[[Any], Any]:
    """The function, or the object with `predict_proba` or `predict`, that `module:function` or
    `FILE.py:function` names. Raises `InputError`."""
    module, _, function = name.rpartition(":")
    loaded_module = module_of(module, name)
    answering = getattr(loaded_module, function, None)
    answers = callable(answering) or callable(getattr(answering, "predict_proba", None))
    if not answers and not callable(getattr(answering, "predict", None)):
        raise InputError(name, f"there is no function {function!r} in {module}")
    return cast(Callable[[Any], Any], answering)


def module_of(module: str, field: str) -> ModuleType:
    """The module of a file or of an installed package. Raises `InputError` on `field`."""
    try:
        if module.endswith(".py"):
            return _executed(module, stamp(Path(module), False))
        return importlib.import_module(module)
    except Exception as error:  # whatever the code of somebody else does when it is imported
        problem = f"cannot be imported: {type(error).__name__}: {one_line(str(error), 200)}"
        raise InputError(field, problem) from error


@lru_cache(maxsize=4)
def _executed(file: str, files: tuple[tuple[str, int, int], ...]) -> ModuleType:
    """A file's module. Files often read a network's weights, and a model is asked about many sets:
    it is run once as it stands.

    `files`: the `stamp` of it and of the modules beside it, which are imported anew with it.
    """
    path = Path(file)
    # Absolute: a relative entry would mean another folder once the program has gone elsewhere, and
    # workers are started with these entries.
    folder = str(path.parent.resolve())
    if folder not in sys.path:
        # What stands beside it can be imported by it, also when it is called.
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    new_module = importlib.util.module_from_spec(spec)
    with _fresh_modules(path.parent, [Path(name) for name, _, _ in files[1:]]):
        spec.loader.exec_module(new_module)
    return new_module


@contextmanager
def _fresh_modules(folder: Path, files: Sequence[Path]) -> Iterator[None]:
    """Inside, `files` of `folder` are what is imported under their names: not as they were before,
    nor those of another folder."""
    for module_file in files:
        module_parts = module_file.relative_to(folder).with_suffix("").parts
        name = ".".join(module_parts[:-1] if module_parts[-1] == "__init__" else module_parts)
        if module_file.suffix == ".py":  # one in machine code cannot be loaded twice
            sys.modules.pop(name, None)
    importlib.invalidate_caches()
    written, sys.dont_write_bytecode = (
        sys.dont_write_bytecode,
        True,
    )  # compiled files know times by the second
    entry = str(folder.resolve())
    sys.path.insert(0, entry)
    try:
        yield
    finally:
        sys.path.remove(entry)
        sys.dont_write_bytecode = written
