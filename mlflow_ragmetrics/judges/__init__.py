"""Who answers questions: the offline judge, any LangChain chat model, a local NLI model, a script."""
