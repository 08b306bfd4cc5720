"""The outcome of one evaluation: its rows, tables, figures and gates."""
