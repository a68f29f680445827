"""Study files proposed for somebody's own data."""
