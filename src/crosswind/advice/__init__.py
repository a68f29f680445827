"""Which methods to try on a problem, from evidence: results of many studies and a model of the gain."""
