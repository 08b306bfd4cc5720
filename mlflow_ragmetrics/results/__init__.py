"""The data of a report: rows, tables, figures and gates."""
