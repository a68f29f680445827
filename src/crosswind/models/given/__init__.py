"""Models that answer without being trained here: ONNX files, functions, tables of predictions."""
