"""Two people who chat: short turns, one asks and the other answers, small talk between."""

import random
from datetime import UTC, datetime, timedelta

from benchmarks.recall_data.building import Conversation, Writer

# What one says, what the other answers, a remark; and what is asked later of which of them (0, 1).
# "{a}" is who speaks first, "{b}" who answers.
EXCHANGES = (
    (
        "How was the concert last night?",
        "Loud! But the cellist was amazing, I nearly cried.",
        "Wow, lucky you.",
        "Who impressed {b} at the concert?",
        1,
    ),
    (
        "Did you find a flat yet?",
        "Yes, third floor, near the harbour. We sign on Friday.",
        "Congratulations!",
        "On which floor is the flat that {b} found?",
        1,
    ),
    (
        "I finally quit smoking.",
        "No way, since when?",
        "Nine days now. Chewing gum all day.",
        "What helps {a} with quitting smoking?",
        2,
    ),
    (
        "What are you reading?",
        "A history of salt. Better than it sounds.",
        "I would fall asleep.",
        "What is the history book that {b} reads about?",
        1,
    ),
    (
        "My knee is bad again after the hike.",
        "Did you see somebody about it?",
        "The physio says two weeks without running.",
        "For how many weeks can {a} not run because of the knee?",
        2,
    ),
    (
        "Are you still learning the piano?",
        "I switched to the accordion, my uncle left me his.",
        "That must be heavy.",
        "Who gave {b} the accordion?",
        1,
    ),
    (
        "We adopted a dog!",
        "What kind?",
        "A grey mutt with three legs, we call her Tripod.",
        "What is the dog of {a} called?",
        2,
    ),
    (
        "Can you eat nuts?",
        "Walnuts are fine, hazelnuts make my throat itch.",
        "Good to know, I'll bake without.",
        "Which nuts can {b} not eat?",
        1,
    ),
    (
        "I got the job at the bakery.",
        "When do you start?",
        "Monday at four in the morning, imagine.",
        "When does {a} start at the bakery?",
        2,
    ),
    (
        "Where did you grow up?",
        "In a lighthouse, believe it or not. My father was the keeper.",
        "Like in a novel.",
        "What was the job of the father of {b}?",
        1,
    ),
    (
        "How is the garden?",
        "Slugs ate all the lettuce, the pumpkins are huge.",
        "Soup then.",
        "What did {b} lose in the garden?",
        1,
    ),
    (
        "I signed up for a pottery class.",
        "Is it expensive?",
        "Ninety for ten evenings, clay included.",
        "How much does {a} pay for the pottery course?",
        2,
    ),
    (
        "Did you call your sister?",
        "We talk again. She apologised, and so did I.",
        "That makes me happy.",
        "Do {b} and the sister talk to each other?",
        1,
    ),
    (
        "My phone fell into the river.",
        "Oh no. All the photos gone?",
        "Only the ones from Portugal, the rest was copied.",
        "Which photos did {a} lose in the river?",
        2,
    ),
    (
        "What do you do on Sunday?",
        "Volunteer at the shelter, washing dishes mostly.",
        "Respect.",
        "What does {b} do as a volunteer?",
        1,
    ),
    (
        "I failed the driving test.",
        "What happened?",
        "Stalled on the hill, twice. The examiner sighed.",
        "Why did {a} fail the test for the driving licence?",
        2,
    ),
    (
        "Do you want to go camping in June?",
        "Only if we take the big tent, the small one leaks.",
        "Deal.",
        "Which tent does {b} want for camping?",
        1,
    ),
    (
        "How is school?",
        "Chemistry is fun, I blew up a balloon with vinegar.",
        "Careful!",
        "Which subject at school does {b} enjoy?",
        1,
    ),
    (
        "I can't sleep lately.",
        "Stress?",
        "The new neighbours drum until midnight.",
        "Why does {a} not sleep?",
        2,
    ),
    (
        "Your birthday is soon, any wishes?",
        "A raincoat. A red one, so that cars see me.",
        "Noted.",
        "What does {b} want for the birthday?",
        1,
    ),
    (
        "We painted the hall.",
        "Which colour?",
        "Supposed to be sand, looks like mustard.",
        "Which colour did {a} paint the hall?",
        2,
    ),
    (
        "Have you been to Japan?",
        "Once, for a judo contest. I came last.",
        "Still, what a trip.",
        "Why was {b} in Japan?",
        1,
    ),
    (
        "I started to keep bees.",
        "Aren't you afraid of stings?",
        "I got eleven on the first day. It fades.",
        "How many times did the bees sting {a}?",
        2,
    ),
    (
        "Still at the bank?",
        "I left in spring, now I repair violins.",
        "From numbers to wood.",
        "What does {b} do since leaving the bank?",
        1,
    ),
)
SMALL_TALK = (
    ("Hey, how are you?", "Fine, a bit tired. And you?", "Can't complain."),
    ("Rain again today.", "At least the plants are happy.", "True!"),
    ("Did you see the match?", "Only the end. What a night.", "I was there with friends, it was fun."),
    ("Good morning!", "Morning. Coffee first.", "Always."),
    ("Long day at work.", "Same here, my boss wanted everything at once.", "Weekend is near."),
    ("I cooked for the family yesterday.", "What did you make?", "Just pasta, but the kids loved it."),
    ("My home is a mess.", "Mine too, who has the time.", "One day."),
    ("That trip would be great.", "Let's do it some day.", "I would love that!"),
)


def build(seed: int) -> Conversation:
    rng = random.Random(f"people {seed}")
    writer = Writer("people", datetime(2024, 1, 8, 18, 30, tzinfo=UTC))
    # Both have every kind of news once, so that it matters who is asked about.
    rounds = [(exchange, first) for exchange in EXCHANGES for first in ("Alice", "Bob")]
    rng.shuffle(rounds)
    for number, (exchange, first) in enumerate(rounds):
        if number % 3 == 0:
            writer.session(timedelta(days=rng.randint(2, 9)))
        second = "Bob" if first == "Alice" else "Alice"
        for _ in range(rng.randint(1, 3)):
            _say(writer, rng.choice(SMALL_TALK), *rng.sample((first, second), 2))
        *said, question, answer = exchange
        turns = _say(writer, said, first, second)
        writer.ask(question.format(a=first, b=second), [turns[answer]])
    return writer.done()


def _say(writer: Writer, said: "tuple[str, ...] | list[str]", first: str, second: str) -> list[str]:
    return [writer.say(second if place == 1 else first, text) for place, text in enumerate(said)]
