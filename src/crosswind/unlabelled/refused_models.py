"""Words for models in forms that are not read, each with the way to one that is."""

from __future__ import annotations

from pathlib import Path

from crosswind.core.registry import listing

__all__ = ["advice_on_model"]

_PICKLES = (".pt", ".pth", ".bin", ".ckpt", ".pkl", ".pickle", ".joblib")
_TENSORFLOW = (".h5", ".hdf5", ".keras", ".tflite", ".pb")
_FUNCTION = "name FILE.py:FUNCTION, a function of a batch of inputs that loads it and gives scores [n, classes]"


def advice_on_model(word: str) -> str:
    """The way to a model that can be asked, in words that follow a refusal of `word`; empty where
    nothing is known of it."""
    ending = Path(word).suffix.lower()
    if "://" in word:
        return ": it is an address, from which nothing is fetched; download the file and name it"
    if ending in _PICKLES:
        return (
            f": a {ending} file may hold code that runs when it is opened, so it is not; export the model"
            f" as ONNX (torch.onnx.export) or, of scikit-learn, by skops.io.dump, or {_FUNCTION}"
        )
    if ending in _TENSORFLOW:
        return f": a {ending} file is TensorFlow's; export it as ONNX (tf2onnx), or {_FUNCTION}"
    if ending == ".py":
        return f": of a program the function is named too, {word}:FUNCTION"
    if Path(word).is_dir():
        return ": it is a folder; of a store a run is named STORE#KEY (crosswind report STORE)"
    if word in {network.name for network in listing("models")}:
        return (
            ": it is a network without weights; name a run that trained it, STORE#KEY, or a file of"
            " weights with its card"
        )
    return ""
