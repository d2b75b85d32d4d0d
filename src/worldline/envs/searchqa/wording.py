"""How the generated encyclopedia puts facts into words, and how its questions ask for them.

A relation holds between a thing of one kind and another thing, a date or a number. It has several sentences that
say it, questions that ask for it and, where its object is a thing itself, phrases that stand for that object inside
a longer question ("the town in which Ada Hale was born"). A relation that a lead states has no sentence of its own.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation of a subject `{s}` and an object `{o}`; without `questions` no task is about it."""

    name: str
    subject: str
    object: str
    """A kind of thing, or `date`, `year`, `number`, `word`."""
    sentences: tuple[str, ...]
    questions: tuple[str, ...]
    phrases: tuple[str, ...]


REFERENCE = {"river": "the river {}", "film": "the film {}", "book": "the novel {}"}
"""How a question names a thing of this kind; the bare name elsewhere."""

LEADS = {
    "person": (
        "{s} (born {birthday} in {birthplace}) is known as a {trade}.",
        "{s} is a {trade} who was born in {birthplace} on {birthday}.",
        "Born in {birthplace} on {birthday}, {s} worked as a {trade}.",
    ),
    "town": (
        "{s} is a town of {population} people in {region}.",
        "{s}, a town in {region}, has {population} inhabitants.",
        "With {population} inhabitants, {s} is one of the towns of {region}.",
    ),
    "region": (
        "{s} is a region whose capital is {capital}.",
        "{s} is a region governed from {capital}, its capital.",
    ),
    "river": (
        "{s} is a river, {length} kilometres long, that rises on {source}.",
        "The river {s} springs from {source} and runs for {length} kilometres.",
    ),
    "mountain": (
        "{s} is a mountain in {range}, {height} metres high.",
        "Standing in {range}, {s} reaches {height} metres.",
    ),
    "school": (
        "{s} is a school in {site}.",
        "{s} is a place of learning in the town of {site}.",
    ),
    "company": (
        "{s} is a firm with its seat in {seat}.",
        "{s}, based in {seat}, is a firm known all over the country.",
    ),
    "film": (
        "{s} is a film directed by {director}.",
        "{s} is a motion picture that {director} directed.",
    ),
    "book": (
        "{s} is a novel by {author}.",
        "{s} is a novel that was written by {author}.",
    ),
}
"""First sentences of a passage; each says the relations named in its slots."""

_TABLE = """
person birthplace town
    ask: In which town was {s} born? | Where was {s} born? | What is the birthplace of {s}?
    as:  the town in which {s} was born | the birthplace of {s}
person birthday date
    ask: When was {s} born? | On which day was {s} born? | What is the date of birth of {s}?
person trade word
person education school
    say: {s} studied at {o}. | {s} was educated at {o}. | {s} took a degree at {o}.
    ask: Where did {s} study? | At which school was {s} educated? | Which school did {s} attend?
    as:  the school that {s} attended | the school at which {s} studied
person spouse person
    say: {s} is married to {o}. | {s} later married {o}. | {s} shares a house with {o}, a partner in marriage.
    ask: Who is {s} married to? | Who is the spouse of {s}? | Whom did {s} marry?
    as:  the spouse of {s} | the person married to {s}
town region region
    ask: In which region is {s}? | Which region does {s} belong to?
    as:  the region of {s} | the region to which {s} belongs
town population number
    ask: How many people live in {s}? | What is the population of {s}?
town river river
    say: {s} lies on the river {o}. | {s} stands on the banks of the river {o}. | {s} grew at a ford of the river {o}.
    ask: On which river does {s} lie? | Which river flows through {s}?
    as:  the river on which {s} lies | the river that flows through {s}
town charter year
    say: {s} received its charter in {o}. | {s} was granted town rights in {o}. | {s} has held a charter since {o}.
    ask: In which year did {s} receive its charter? | When was {s} granted town rights?
town native person
    say: {s} is proud of {o}, who was born there. | {s} counts {o} among its people.
region capital town
    ask: What is the capital of {s}? | Which town is the capital of {s}?
    as:  the capital of {s}
region governor person
    say: {s} is governed by {o}. | {s} has {o} as its governor. | {s} elected {o} to the governor's seat.
    ask: Who is the governor of {s}? | Who governs {s}?
    as:  the governor of {s} | the person who governs {s}
river length number
    ask: How many kilometres long is {s}? | What is the length of {s} in kilometres?
river source mountain
    ask: On which mountain does {s} rise? | Where does {s} have its source?
    as:  the mountain on which {s} rises | the mountain from which {s} springs
river tributary river
    say: {s} is joined by the river {o}. | {s} takes in the river {o} on its way.
    ask: Which river joins {s}? | What is the tributary of {s}?
    as:  the tributary of {s} | the river that joins {s}
mountain range region
    ask: In which region does {s} stand? | Which region is {s} part of?
    as:  the region in which {s} stands
mountain height number
    ask: How many metres high is {s}? | What is the height of {s} in metres?
mountain climber person
    say: {s} was first climbed by {o}. | {s} saw its first ascent by {o}. | {s} was conquered by {o}.
    ask: Who was the first to climb {s}? | Who made the first ascent of {s}?
    as:  the first climber of {s} | the person who first climbed {s}
school site town
    ask: In which town is {s}? | Where can one find {s}?
    as:  the town that is home to {s} | the town where {s} stands
school opening year
    say: {s} opened its doors in {o}. | {s} has taught since {o}. | {s} was set up in {o}.
    ask: In which year did {s} open? | When did {s} open its doors?
school head person
    say: {s} is headed by {o}. | {s} has {o} as its head. | {s} chose {o} to lead it.
    ask: Who is the head of {s}? | Who leads {s}?
    as:  the head of {s} | the person who leads {s}
company seat town
    ask: In which town does {s} have its seat? | Where is {s} based?
    as:  the town where {s} has its seat | the home town of {s}
company founder person
    say: {s} was founded by {o}. | {s} goes back to its founder, {o}. | {s} began in a shed that {o} owned.
    ask: Who founded {s}? | Who is the founder of {s}?
    as:  the founder of {s} | the person who founded {s}
company founding year
    say: {s} has been in business since {o}. | {s} was founded in {o}. | {s} dates from {o}.
    ask: In which year was {s} founded? | Since when has {s} been in business?
film director person
    ask: Who directed {s}? | Who is the director of {s}?
    as:  the director of {s} | the person who directed {s}
film star person
    say: {s} stars {o}. | {s} has {o} in the leading part. | {s} gave {o} a first leading part.
    ask: Who plays the lead in {s}? | Who stars in {s}?
    as:  the star of {s} | the person who plays the lead in {s}
film release year
    say: {s} came to the cinemas in {o}. | {s} was released in {o}. | {s} had its first night in {o}.
    ask: In which year was {s} released? | When did {s} come to the cinemas?
book author person
    ask: Who wrote {s}? | Who is the author of {s}?
    as:  the author of {s} | the person who wrote {s}
book publication year
    say: {s} appeared in {o}. | {s} was first printed in {o}. | {s} was published in {o}.
    ask: In which year was {s} published? | When did {s} appear?
book publisher company
    say: {s} was brought out by {o}. | {s} was printed by {o}.
    ask: Who brought out {s}? | Which company printed {s}?
    as:  the company that brought out {s} | the printer of {s}
"""


def _relations(table: str) -> tuple[Relation, ...]:
    """The relations that a table in the form above describes."""
    relations: list[Relation] = []
    forms: dict[str, tuple[str, ...]] = {}
    for line in reversed(table.strip().splitlines()):
        if line.startswith(" "):
            key, _, texts = line.strip().partition(":")
            forms[key] = tuple(text.strip() for text in texts.split("|"))
        else:
            subject, name, target = line.split()
            sentences, questions, phrases = (forms.get(key, ()) for key in ("say", "ask", "as"))
            relations.append(Relation(name, subject, target, sentences, questions, phrases))
            forms = {}
    return tuple(reversed(relations))


RELATIONS = _relations(_TABLE)
