"""The row with a fixed cost: a 4-sentence answer, a 3-sentence reference, 5 chunks of about 90 words."""

from __future__ import annotations

QUESTION = "When was the Eiffel Tower completed, who designed it, and how tall is it in all?"
ANSWER = (
    "The Eiffel Tower was completed in March 1889 as the entrance arch of the World's Fair in Paris, France. "
    "It was designed by engineers working for the company of Gustave Eiffel, who also built bridges. "
    "With its antennas the tower is about 330 metres tall, roughly as high as an 81-storey building there. "
    "It was the tallest structure in the world for forty-one years, until the Chrysler Building rose."
)
REFERENCE = (
    "The tower was finished in 1889. Engineers of Gustave Eiffel's company designed it. "
    "It is 330 metres tall and was the tallest structure in the world until 1930."
)
_THEMES = ("the iron", "the lifts", "the paint", "the visitors", "the antennas")
CHUNKS = tuple(
    f"On {theme}: the tower has been the subject of countless investigations, and most of them agree on the main "
    f"figures. Engineers looked at {theme} in 1889, when the structure was opened to the public of Paris, and again "
    f"in 1986, when it was renovated from top to bottom. What was found about {theme} then filled several long "
    "volumes, kept in the archive of the company that runs the site, and shown to anybody who asks for them in good "
    "time. The height of 330 metres counts the aerials, too, and is not the same in winter."
    for theme in _THEMES
)
ROW = {"question": QUESTION, "answer": ANSWER, "reference": REFERENCE, "contexts": list(CHUNKS)}
FULL_SET = [
    "faithfulness",
    "chunk_precision",
    "fact_recall",
    "fact_recall(target='reference')",
    "factual_correctness",
    "correctness",
    "answer_relevance",
]
