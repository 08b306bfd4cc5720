"""LangChain: chains scored while they run, and chains run over a data set."""
