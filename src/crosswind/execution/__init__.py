"""One run as a function of its specification, the scheduler of a plan's runs, and the engines on
which they execute: this process, worker processes, or Ray."""
