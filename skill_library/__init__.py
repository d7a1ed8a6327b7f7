"""What is known: the rows of the evidence, the vocabulary of intents, skills."""
