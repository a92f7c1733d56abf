"""Notes: no speakers, no dates, no sessions, no order. Each stands alone; many are about similar things."""

import random

from benchmarks.recall_data.building import Conversation, Writer

# The note, and what is asked later.
NOTES = (
    (
        "The Wi-Fi password of the cabin is on a yellow sticker under the router.",
        "Where do I find the login for the cabin's internet?",
    ),
    (
        "Boiler: press reset for five seconds, wait until the green light blinks twice.",
        "How do I restart the heating?",
    ),
    (
        "Car insurance ends in October; ask for the offer without glass damage.",
        "When does the cover for the car stop?",
    ),
    (
        "Bread: 500 g flour, 340 g water, 10 g salt, fold four times, bake at 240.",
        "How much salt goes into the loaf?",
    ),
    (
        "The plumber who fixed the kitchen sink is good and cheap, his card is in the blue drawer.",
        "Where is the contact of the man who repaired the sink?",
    ),
    (
        "Paint of the living room: shade 'oat milk', two coats, half a bucket is left in the cellar.",
        "Which colour are the walls where the sofa stands?",
    ),
    (
        "Dentist says the lower left wisdom tooth can stay unless it hurts.",
        "What was the advice about my tooth?",
    ),
    (
        "Gift ideas for Alice: a fountain pen, a book on bees, tickets for the planetarium.",
        "What could I give Alice for her birthday?",
    ),
    ("Tomatoes did badly on the north balcony, beans were fine.", "Which vegetables like the shady balcony?"),
    (
        "Passport number is in the safe, the safe opens with the year that we moved in.",
        "How do I open the safe?",
    ),
    (
        "Train to the coast: sit on the left for the view, platform 9, no food on board.",
        "Which side of the train has the better view?",
    ),
    (
        "The neighbour's dog is called Pepper and must not get chicken.",
        "What is the animal next door allergic to?",
    ),
    (
        "Museum is closed on Mondays and free on the first Sunday of a month.",
        "When does the museum cost nothing?",
    ),
    (
        "Old laptop: battery swollen, do not charge it, bring it to the recycling yard.",
        "What should happen with the old computer?",
    ),
    (
        "Guitar strings: light gauge, the last set buzzed on the fifth fret.",
        "Which strings did I have trouble with?",
    ),
    (
        "Tax: keep receipts of the home office chair and the second screen.",
        "Which purchases can be deducted?",
    ),
    ("Bike lock code is the last four digits of grandma's phone number.", "How do I unlock the bicycle?"),
    (
        "Coffee machine wants descaling every 200 cups, citric acid is under the sink.",
        "What do I clean the espresso maker with?",
    ),
    (
        "The library book about volcanoes is due back, it can be renewed twice.",
        "How often can I extend the loan of the book?",
    ),
    ("Running: knee is fine up to 8 km on grass, hurts on asphalt.", "How far can I jog without pain?"),
    (
        "Wedding photos are on the black drive, folder 'june', not on the cloud.",
        "Where are the pictures of the marriage?",
    ),
    (
        "The lawyer needs the lease, the deposit receipt and the letter about the mould.",
        "Which papers do I bring to the attorney?",
    ),
    (
        "Sourdough starter lives in the fridge door, feed it on weekends.",
        "How often does the starter get flour?",
    ),
    (
        "Hotel in the mountains: ask for a room away from the lift, breakfast ends at ten.",
        "Until when can we eat in the morning at the hotel?",
    ),
    ("Spare key is with the baker across the street.", "Who has our second key?"),
    (
        "Printer jams with recycled paper; use the 90 g sheets from the top shelf.",
        "What paper works in the printer?",
    ),
    (
        "Medicine: not with milk, half an hour before food, stop if a rash shows up.",
        "When should I take the pills?",
    ),
    (
        "The roof leaks above the small window when wind comes from the west.",
        "Where does rain get into the house?",
    ),
    (
        "School wants the form about swimming lessons signed by both parents.",
        "What do mother and father have to sign?",
    ),
    (
        "Electric meter is in the hall cupboard, read it on the last day of the year.",
        "When do I note the power consumption?",
    ),
    ("Ski boots size 27.5, bindings set to 6.", "What is my size of boots for the snow?"),
    ("Do not plant mint in the bed again, it took over everything.", "Which herb spread too much?"),
    ("The accountant answers mail on Thursdays only.", "On which day can I reach the accountant?"),
    ("Grandfather's clock: wind it eight turns, never to the stop.", "How do I wind the antique clock?"),
    (
        "Vaccination of the cat is due in spring, the vet on Mill Road has the booklet.",
        "Which vet keeps the papers of the cat?",
    ),
    (
        "Best route to the airport before seven is the ring road, later the tunnel.",
        "How do I get to my flight early in the morning?",
    ),
)
PLACES = ("cabin", "flat", "office", "garden", "garage", "cellar")
OBJECTS = ("router", "window", "drawer", "shelf", "key", "lamp", "box", "folder", "battery", "card")
FILLERS = (
    "Check the {o} in the {p} again before winter.",
    "Bought a new {o} for the {p}, the receipt is in the folder.",
    "The {p} needs a second {o}; measure first.",
    "Ask about the {o} when we are at the {p}.",
    "Moved the {o} from the {p}, it was in the way.",
    "{p}: the {o} is fine, only dusty.",
)


def build(seed: int) -> Conversation:
    rng = random.Random(f"notes {seed}")
    writer = Writer("notes")
    fillers = [text.format(o=thing, p=place) for text in FILLERS for place in PLACES for thing in OBJECTS]
    texts: list[tuple[str, str | None]] = [*NOTES, *[(text, None) for text in fillers]]
    rng.shuffle(texts)
    for text, question in texts:
        note = writer.say(None, text[:1].upper() + text[1:])
        if question is not None:
            writer.ask(question, [note])
    return writer.done()
