"""Judges that answer questions: offline, any LangChain chat model, a decision model, a local NLI model, a script."""
