"""Search QA: answer a question with the help of a search engine, over a generated encyclopedia or real data."""
