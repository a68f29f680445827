"""Results to tables, figures and pages."""
