"""A study file, its runs as a graph, one run as a function of its spec, where runs execute and
where results live."""
