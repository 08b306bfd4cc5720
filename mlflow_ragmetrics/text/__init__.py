"""Reading and writing language: sentences, terms, non-answers, and messages in two languages."""
