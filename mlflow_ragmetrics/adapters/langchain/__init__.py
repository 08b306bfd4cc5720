"""LangChain: scores chains while they run, and runs chains over a data set."""
