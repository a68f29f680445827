"""Distribution shifts as weights on cells, and the splits that are drawn from them."""
