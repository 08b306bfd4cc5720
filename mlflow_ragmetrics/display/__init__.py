"""A report for people to read: in the terminal, as Markdown, as a page, in a notebook, as JUnit."""
