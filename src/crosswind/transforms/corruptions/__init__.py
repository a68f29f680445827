"""The nineteen corruptions of ImageNet-C at five severities, for batches of images.

Reference: Hendrycks and Dietterich, Benchmarking Neural Network Robustness to Common Corruptions
and Perturbations, ICLR 2019.
"""
