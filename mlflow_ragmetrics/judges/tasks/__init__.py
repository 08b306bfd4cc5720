"""How questions become one message to a chat model, and its reply their answers: one file a kind of question."""
