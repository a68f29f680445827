"""The evidence of `crosswind advise`: studies, the table that they fill, and how its model is judged."""
