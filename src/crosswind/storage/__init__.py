"""The database and the files of a store, and the record that a driver keeps of its runs in it."""
