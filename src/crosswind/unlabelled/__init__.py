"""The accuracy of one model on rows without labels: the rows, the model, its estimates and the
answer in a sentence."""
