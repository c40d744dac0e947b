"""A page to play with a memory and to look into trained models: `fastweights play` (extra `[play]`)."""
