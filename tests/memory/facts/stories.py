"""The table: each story with its right answers for what was true when, and what was believed when."""

from tests.memory.facts.story import Story, parse

_TEXTS: dict[str, str] = {}

# ── moves ─────────────────────────────────────────────────────────────────────────────────────────

_TEXTS["one fact"] = """
    a: user lives_in Paris from 2018 @ 2019
    ? user lives_in = Paris
    ? user lives_in at 2017 = -
    ? user lives_in at 2018 = Paris
    ? user lives_in known 2018 = -
    ? user lives_in known 2019 = Paris
"""
_TEXTS["a move"] = """
    a: user lives_in Paris from 2018 @ 2018
    b: user lives_in London from 2020 @ 2020-06
    ? user lives_in = London
    ? user lives_in at 2019 = Paris
    ? user lives_in at 2020 = London
    ? user lives_in at 2021 known 2020 = Paris
    ? user lives_in known 2020-06 = London
"""
_TEXTS["a move that is told without dates"] = """
    a: user lives_in Paris @ 2018
    b: user lives_in London @ 2020
    ? user lives_in = London
    ? user lives_in at 2019 = Paris
    ? user lives_in at 2017 = -
    ? user lives_in at 2021 known 2019 = Paris
"""
_TEXTS["three moves"] = """
    a: user lives_in Paris from 2010 @ 2010
    b: user lives_in London from 2014 @ 2014
    c: user lives_in Rome from 2017 @ 2017
    d: user lives_in Oslo from 2021 @ 2021
    ? user lives_in = Oslo
    ? user lives_in at 2012 = Paris
    ? user lives_in at 2016 = London
    ? user lives_in at 2017 = Rome
    ? user lives_in at 2020 = Rome
    ? user lives_in known 2016 = London
"""
_TEXTS["back to the first"] = """
    a: user lives_in Paris from 2010 @ 2010
    b: user lives_in London from 2014 @ 2014
    c: user lives_in Paris from 2018 @ 2018
    ? user lives_in = Paris
    ? user lives_in at 2012 = Paris
    ? user lives_in at 2015 = London
    ? user lives_in known 2015 = London
"""
_TEXTS["a move that is still to come"] = """
    a: user lives_in Paris from 2018 @ 2018
    b: user lives_in London from 2027 @ 2025
    ? user lives_in at 2026 = Paris
    ? user lives_in at 2027 = London
    ? user lives_in at 2028 known 2024 = Paris
"""
_TEXTS["six jobs"] = """
    a: user works_at Acme from 2001 @ 2001
    b: user works_at Bank from 2004 @ 2010
    c: user works_at City from 2008 @ 2009
    d: user works_at Dock from 2012 @ 2020
    e: user works_at Echo from 2016 @ 2016
    f: user works_at Fern from 2019 @ 2019
    ? user works_at = Fern
    ? user works_at at 2005 = Bank
    ? user works_at at 2013 = Dock
    ? user works_at at 2013 known 2019 = City
    ? user works_at at 2005 known 2009 = Acme
    ? user works_at known 2015 = City
"""

# ── late news ─────────────────────────────────────────────────────────────────────────────────────

_TEXTS["late news of an older home"] = """
    a: user lives_in London from 2020 @ 2020
    b: user lives_in Paris from 2015 @ 2023
    ? user lives_in = London
    ? user lives_in at 2018 = Paris
    ? user lives_in at 2018 known 2022 = -
    ? user lives_in at 2021 known 2022 = London
"""
_TEXTS["late news between two homes"] = """
    a: user lives_in Paris from 2010 @ 2010
    b: user lives_in London from 2020 @ 2020
    c: user lives_in Rome from 2015 @ 2024
    ? user lives_in = London
    ? user lives_in at 2012 = Paris
    ? user lives_in at 2016 = Rome
    ? user lives_in at 2016 known 2023 = Paris
"""
_TEXTS["late news of an older home with its end"] = """
    a: user lives_in London from 2020 @ 2020
    b: user lives_in Paris from 2010 until 2012 @ 2023
    ? user lives_in = London
    ? user lives_in at 2011 = Paris
    ? user lives_in at 2015 = -
"""
_TEXTS["late news that is the oldest of all"] = """
    a: user works_at Bank from 2015 @ 2015
    b: user works_at City from 2018 @ 2018
    c: user works_at Acme from 2001 @ 2026
    ? user works_at = City
    ? user works_at at 2014 = Acme
    ? user works_at at 2016 = Bank
    ? user works_at at 2014 known 2025 = -
"""
_TEXTS["the beginning turns out to be earlier"] = """
    a: user lives_in Paris from 2018 @ 2018
    b: user lives_in Paris from 2015 @ 2020
    ? user lives_in = Paris
    ? user lives_in at 2016 = Paris
    ? user lives_in at 2016 known 2019 = -
"""
_TEXTS["an old letter is read after the news"] = """
    a: user works_at City @ 2024
    b: user works_at Bank from 2010 @ 2025
    ? user works_at = City
    ? user works_at at 2020 = Bank
    ? user works_at at 2020 known 2024-06 = -
"""

# ── intervals ─────────────────────────────────────────────────────────────────────────────────────

_TEXTS["a stay that is over"] = """
    a: user lives_in Tokyo from 2019 until 2020 @ 2019
    ? user lives_in = -
    ? user lives_in at 2019-06 = Tokyo
    ? user lives_in at 2020 = -
"""
_TEXTS["a year abroad"] = """
    a: user lives_in Paris from 2018 @ 2018
    b: user lives_in Tokyo from 2019 until 2020 @ 2024
    ? user lives_in = Paris
    ? user lives_in at 2018-06 = Paris
    ? user lives_in at 2019-06 = Tokyo
    ? user lives_in at 2020 = Paris
    ? user lives_in at 2019-06 known 2023 = Paris
"""
_TEXTS["a trip within a stay"] = """
    a: user lives_in Paris from 2010 @ 2010
    b: user lives_in Tokyo from 2015 until 2020 @ 2015
    c: user lives_in Osaka from 2016 until 2017 @ 2016
    ? user lives_in at 2015-06 = Tokyo
    ? user lives_in at 2016-06 = Osaka
    ? user lives_in at 2018 = Tokyo
    ? user lives_in = Paris
"""
_TEXTS["a stay that another one outlasts"] = """
    a: user lives_in Paris from 2010 @ 2010
    b: user lives_in Tokyo from 2015 until 2017 @ 2015
    c: user lives_in Osaka from 2016 until 2019 @ 2016
    ? user lives_in at 2015-06 = Tokyo
    ? user lives_in at 2018 = Osaka
    ? user lives_in = Paris
"""
_TEXTS["a move while abroad"] = """
    a: user lives_in Paris from 2010 @ 2010
    b: user lives_in Tokyo from 2015 until 2020 @ 2015
    c: user lives_in Oslo from 2017 @ 2017
    ? user lives_in at 2016 = Tokyo
    ? user lives_in at 2018 = Oslo
    ? user lives_in = Oslo
"""
_TEXTS["the end is learned later"] = """
    a: user works_at Acme from 2015 @ 2015
    b: user works_at Acme from 2015 until 2022 @ 2022-06
    ? user works_at = -
    ? user works_at at 2021 = Acme
    ? user works_at at 2024 known 2022 = Acme
"""
_TEXTS["quitting does not bring the job before back"] = """
    a: user works_at Bank from 2010 @ 2010
    b: user works_at Acme from 2015 @ 2015
    c: user works_at Acme until 2022 @ 2022-06
    ? user works_at = -
    ? user works_at at 2012 = Bank
    ? user works_at at 2021 = Acme
    ? user works_at known 2020 = Acme
"""
_TEXTS["only an end is told"] = """
    a: user works_at Acme until 2022 @ 2023
    ? user works_at = -
    ? user works_at at 2021 = Acme
    ? user works_at at 2022 = -
"""
_TEXTS["two spells of the same"] = """
    a: user member_of Choir from 2010 until 2012 @ 2020
    b: user member_of Choir from 2015 until 2017 @ 2020
    ? user member_of at 2011 = Choir
    ? user member_of at 2013 = -
    ? user member_of at 2016 = Choir
    ? user member_of = -
"""
_TEXTS["a contract that is extended"] = """
    a: user works_at Acme from 2015 until 2018 @ 2015
    b: user works_at Acme from 2017 until 2021 @ 2017
    ? user works_at at 2019 = Acme
    ? user works_at at 2019 known 2016 = -
    ? user works_at = -
"""

# ── plurals ───────────────────────────────────────────────────────────────────────────────────────

_TEXTS["many likes"] = """
    a: user likes tea from 2018 @ 2018
    b: user likes jazz from 2020 @ 2020
    c: user likes chess from 2016 @ 2022
    ? user likes = tea, jazz, chess
    ? user likes at 2019 = tea, chess
    ? user likes known 2019 = tea
"""
_TEXTS["a like that ends"] = """
    a: user likes tea from 2018 @ 2018
    b: user likes jazz from 2018 @ 2018
    c: user likes tea until 2021 @ 2021-06
    ? user likes = jazz
    ? user likes at 2020 = tea, jazz
"""
_TEXTS["an unknown predicate has many values"] = """
    a: user collects stamps from 2018 @ 2018
    b: user collects coins from 2019 @ 2019
    ? user collects = stamps, coins
"""
_TEXTS["an unknown predicate that is declared to have one"] = """
    a: user drives Saab from 2018 @ 2018
    b: user drives Fiat from 2020 @ 2020
    c: declare drives one @ 2022
    ? user drives = Fiat
    ? user drives at 2019 = Saab
    ? user drives known 2021 = Saab, Fiat
"""
_TEXTS["a usual one that is declared to have many"] = """
    a: user works_at Acme from 2018 @ 2018
    b: user works_at Bank from 2020 @ 2020
    c: declare works_at many @ 2017
    ? user works_at = Acme, Bank
"""
_TEXTS["a declaration that is undone"] = """
    a: user drives Saab from 2018 @ 2018
    b: user drives Fiat from 2020 @ 2020
    c: declare drives one @ 2021
    d: undo c @ 2023
    ? user drives = Saab, Fiat
    ? user drives known 2022 = Fiat
"""
_TEXTS["a favourite is one"] = """
    a: user favorite_color red from 2018 @ 2018
    b: user favorite_color blue from 2020 @ 2020
    ? user favorite_color = blue
"""

# ── the same again ────────────────────────────────────────────────────────────────────────────────

_TEXTS["two sources outweigh a surer one"] = """
    a: user likes tea from 2018 sure 0.5 by e1 @ 2018
    b: user likes tea from 2018 sure 0.5 by e2 @ 2019
    c: user likes jazz from 2018 sure 0.7 by e3 @ 2018
    ? user likes = tea > jazz
    ? user likes known 2018 = jazz > tea
"""
_TEXTS["one source that repeats itself is no surer"] = """
    a: user likes tea from 2018 sure 0.5 by e1 @ 2018
    b: user likes tea from 2019 sure 0.5 by e1 @ 2019
    c: user likes jazz from 2018 sure 0.7 by e3 @ 2018
    ? user likes = jazz > tea
"""
_TEXTS["said again later it is one fact"] = """
    a: user lives_in Paris from 2018 by e1 @ 2018
    b: user lives_in Paris from 2021 by e2 @ 2021
    ? user lives_in = Paris
    ? user lives_in at 2019 = Paris
"""
_TEXTS["said again after another it is a return"] = """
    a: user lives_in Paris from 2018 by e1 @ 2018
    b: user lives_in Paris from 2022 by e2 @ 2022
    c: user lives_in Rome from 2020 by e3 @ 2023
    ? user lives_in = Paris
    ? user lives_in at 2019 = Paris
    ? user lives_in at 2021 = Rome
    ? user lives_in at 2021 known 2022 = Paris
"""

# ── contradictions ────────────────────────────────────────────────────────────────────────────────

_TEXTS["a weak contradiction"] = """
    a: user lives_in Paris from 2018 sure 0.9 @ 2018
    b: user lives_in London from 2020 sure 0.3 @ 2020
    ? user lives_in = Paris > London
    ? user lives_in at 2019 = Paris
"""
_TEXTS["a weak contradiction about the same time"] = """
    a: user lives_in Paris from 2018 sure 0.9 @ 2018
    b: user lives_in London from 2018 sure 0.3 @ 2020
    ? user lives_in = Paris > London
    ? user lives_in known 2019 = Paris
"""
_TEXTS["a doubt that is confirmed"] = """
    a: user lives_in Paris from 2018 sure 0.9 by e1 @ 2018
    b: user lives_in London from 2020 sure 0.4 by e2 @ 2020
    c: user lives_in London from 2022 sure 0.5 by e3 @ 2022
    ? user lives_in = London
    ? user lives_in at 2019 = Paris
    ? user lives_in at 2021 = London
    ? user lives_in at 2021 known 2021 = Paris > London
"""
_TEXTS["a doubt that is laid to rest"] = """
    a: user lives_in Paris from 2018 sure 0.9 by e1 @ 2018
    b: user lives_in London from 2020 sure 0.3 by e2 @ 2020
    c: user lives_in Paris from 2022 sure 0.9 by e3 @ 2022
    ? user lives_in = Paris
    ? user lives_in at 2021 = Paris > London
"""
_TEXTS["a doubt that a move ends"] = """
    a: user lives_in Paris from 2018 sure 0.9 @ 2018
    b: user lives_in London from 2020 sure 0.3 @ 2020
    c: user lives_in Rome from 2023 sure 0.9 @ 2023
    ? user lives_in = Rome
    ? user lives_in at 2021 = Paris > London
"""
_TEXTS["a sure fact ends a weak one"] = """
    a: user lives_in Paris from 2018 sure 0.3 @ 2018
    b: user lives_in London from 2020 sure 0.9 @ 2020
    ? user lives_in = London
    ? user lives_in at 2019 = Paris
"""
_TEXTS["two of the same time: the surer"] = """
    a: user born_in Paris from 1990 sure 0.7 @ 2018
    b: user born_in Lyon from 1990 sure 0.9 @ 2019
    ? user born_in = Lyon
    ? user born_in known 2018 = Paris
"""
_TEXTS["two of the same time, as sure: the later word"] = """
    a: user born_in Lyon from 1990 @ 2018
    b: user born_in Paris from 1990 @ 2019
    c: user born_in Dijon from 1990 @ 2020
    ? user born_in = Dijon
    ? user born_in known 2019 = Paris
"""
_TEXTS["a weak stay covers nothing"] = """
    a: user lives_in Paris from 2018 sure 0.9 @ 2018
    b: user lives_in Tokyo from 2019 until 2021 sure 0.2 @ 2019
    ? user lives_in at 2020 = Paris > Tokyo
    ? user lives_in = Paris
"""
_TEXTS["three of the same time"] = """
    a: user lives_in Paris from 2018 sure 0.9 @ 2018
    b: user lives_in London from 2018 sure 0.5 @ 2019
    c: user lives_in Rome from 2018 sure 0.4 @ 2020
    d: user lives_in Oslo from 2018 sure 0.2 @ 2021
    ? user lives_in = Paris > London > Oslo
"""
_TEXTS["a home that is mentioned while abroad"] = """
    a: user lives_in Paris from 2010 sure 0.9 @ 2010
    b: user lives_in Tokyo from 2015 until 2020 sure 0.9 @ 2015
    c: user lives_in Paris from 2017 sure 0.3 @ 2017
    ? user lives_in at 2018 = Tokyo > Paris
    ? user lives_in = Paris
"""
_TEXTS["a rumour during a stay is newer than what was before it"] = """
    a: user lives_in Paris from 2010 sure 0.5 @ 2010
    b: user lives_in Tokyo from 2015 until 2020 sure 0.95 @ 2015
    c: user lives_in Oslo from 2017 sure 0.5 @ 2017
    ? user lives_in at 2018 = Tokyo > Oslo
    ? user lives_in = Oslo
"""

# ── corrections, retractions, undo ────────────────────────────────────────────────────────────────

_TEXTS["a correction"] = """
    a: user born_in Paris from 1990 @ 2018
    b: retract a @ 2019
    c: user born_in Lyon from 1990 @ 2019
    ? user born_in = Lyon
    ? user born_in known 2018 = Paris
"""
_TEXTS["a slip of the tongue"] = """
    a: user age 39 @ 2020
    b: user age 40 @ 2020-02
    ? user age = 40
    ? user age known 2020 = 39
"""
_TEXTS["a retracted move"] = """
    a: user lives_in Paris from 2018 @ 2018
    b: user lives_in London from 2020 @ 2020
    c: retract b @ 2022
    ? user lives_in = Paris
    ? user lives_in at 2021 = Paris
    ? user lives_in at 2021 known 2021 = London
"""
_TEXTS["retracted for one of two sources"] = """
    a: user likes tea from 2018 sure 0.5 by e1 @ 2018
    b: user likes tea from 2018 sure 0.5 by e2 @ 2019
    c: user likes jazz from 2018 sure 0.6 @ 2018
    d: retract a @ 2020
    ? user likes = jazz > tea
    ? user likes known 2019 = tea > jazz
"""
_TEXTS["retracted and said again"] = """
    a: user likes tea from 2018 by e1 @ 2018
    b: retract a @ 2020
    c: user likes tea from 2022 by e2 @ 2022
    ? user likes = tea
    ? user likes at 2021 = -
    ? user likes at 2021 known 2019 = tea
"""
_TEXTS["a retraction that is undone"] = """
    a: user lives_in Paris from 2018 @ 2018
    b: retract a @ 2020
    c: undo b @ 2022
    ? user lives_in = Paris
    ? user lives_in known 2021 = -
"""
_TEXTS["a fact that is undone"] = """
    a: user lives_in Paris from 2018 @ 2018
    b: user lives_in London from 2020 @ 2020
    c: undo b @ 2021
    ? user lives_in = Paris
    ? user lives_in known 2020 = London
"""
_TEXTS["undone, and that undone, and that undone"] = """
    a: user lives_in Paris from 2018 @ 2018
    b: undo a @ 2019
    c: undo b @ 2020
    d: undo c @ 2021
    ? user lives_in = -
    ? user lives_in known 2018 = Paris
    ? user lives_in known 2019 = -
    ? user lives_in known 2020 = Paris
"""
_TEXTS["undone twice, one of them undone"] = """
    a: user lives_in Paris from 2018 @ 2018
    b: undo a @ 2019
    c: undo a @ 2020
    d: undo b @ 2021
    ? user lives_in = -
"""
_TEXTS["two retractions, one undone"] = """
    a: user likes tea from 2018 @ 2018
    b: retract a @ 2019
    c: retract a @ 2020
    d: undo c @ 2021
    ? user likes = -
"""

# ── names ─────────────────────────────────────────────────────────────────────────────────────────

_TEXTS["I am the user"] = """
    a: I lives_in Paris from 2018 @ 2018
    b: user lives_in London from 2020 @ 2020
    ? user lives_in = London
    ? me lives_in at 2019 = Paris
"""
_TEXTS["the user has a name"] = """
    a: user name Alice from 2000 @ 2018
    b: Alice lives_in Paris from 2018 @ 2018
    c: user lives_in London from 2020 @ 2020
    ? Alice lives_in = London
    ? ALICE lives_in at 2019 = Paris
    ? user name = Alice
"""
_TEXTS["the name is learned later"] = """
    a: Alice lives_in Paris from 2018 @ 2018
    b: user lives_in London from 2020 @ 2020
    c: user name Alice from 2000 @ 2022
    ? user lives_in = London
    ? Alice lives_in = London
    ? Alice lives_in known 2021 = Paris
    ? user lives_in at 2019 = Paris
    ? user lives_in at 2019 known 2021 = -
"""
_TEXTS["a new name; the old one still means her"] = """
    a: user name Alice from 2000 @ 2018
    b: user name Alicia from 2020 @ 2020
    c: Alice likes tea from 2010 @ 2019
    ? user name = Alicia
    ? user name at 2019 = Alice
    ? Alicia likes = tea
"""
_TEXTS["an alias"] = """
    a: Bob likes tea from 2018 @ 2018
    b: Robert likes jazz from 2018 @ 2018
    c: alias Bob Robert @ 2019
    ? Bob likes = tea, jazz
    ? Robert likes = tea, jazz
    ? Robert likes known 2018 = jazz
"""
_TEXTS["aliases in a chain"] = """
    a: Bob lives_in Paris from 2018 @ 2018
    b: Rob lives_in London from 2020 @ 2020
    c: alias Bob Robert @ 2021
    d: alias Rob Bob @ 2022
    ? Robert lives_in = London
    ? Bob lives_in at 2019 = Paris
    ? Rob lives_in at 2019 known 2021 = -
"""
_TEXTS["an alias that was wrong"] = """
    a: Bob likes tea from 2018 @ 2018
    b: Robert likes jazz from 2018 @ 2018
    c: alias Bob Robert @ 2019
    d: retract c @ 2021
    ? Bob likes = tea
    ? Robert likes = jazz
    ? Robert likes known 2020 = tea, jazz
"""
_TEXTS["a friend of the same name is somebody else"] = """
    a: user name Alice from 2000 @ 2018
    b: friend name Alice from 2000 @ 2018
    c: friend lives_in Oslo from 2018 @ 2018
    d: user lives_in Paris from 2018 @ 2018
    ? user lives_in = Paris
    ? Alice lives_in = Paris
    ? friend lives_in = Oslo
    ? friend name = Alice
"""
_TEXTS["spelling makes no difference"] = """
    a: bob lives_in paris from 2018 by e1 @ 2018
    b: BOB lives_in Paris from 2019 by e2 @ 2019
    ? Bob lives_in at 2020 = paris
    ? Bob lives_in at 2018-06 = paris
"""

STORIES: list[Story] = [parse(name, text) for name, text in _TEXTS.items()]
