"""Wrong solutions of the Python starter set, as changes of its golds, and second solutions that are built differently."""

from __future__ import annotations

MISSES: dict[str, list[tuple[str, str]]] = {
    "telegram-check": [("place % 3 == 0", "place % 3 == 1"), ("+ 11", "+ 10")],
    "telegram-body": [('sign == "=" and len(fields) == 1', 'sign == "="'), ('else "yes"', 'else ""')],
    "ride-fares": [("(2 * full * part + 40) // 80 * 5", "round(full * part / 40) * 5"), ("len(ages) // 8", "len(ages) // 9")],
    "running-days": [
        ("3 if month == 5 else 2", "2"),
        ("day + timedelta(1) if (day.month, day.day) in HOLIDAYS else day", "day"),
    ],
    "bell-code": [('{"RUN": "CREEP"}.get(kept, kept)', "kept"), ("if signal != before:", "if True:")],
    "wind-alarms": [("speed > limit", "speed >= limit"), ("speed < 0", "speed < -9")],
    "quickest-ride": [('(start, "KA")', "(start,)"), ("else 4", "else 0")],
    "cabin": [
        ("names[:at] + names[:at:-1]", "names[:at] + names[at + 1:]"),
        ("self.load + kilograms > self._limit", "self.load + kilograms >= self._limit"),
    ],
    "tower-logger": [("bits[:0:-1]", "bits[1:]"), (">= 1024", "> 1024")],
    "seating": [("reverse=True)", "reverse=False)"), ('if person["group"] else 1', "if True else 1")],
    "proof-marks": [
        ("added.insert(0, rest[0])", "added.append(rest[0])"),
        ("new, added, ends = word, [], False\n    return", "pass\n    return"),
    ],
    "sheet-layout": [
        ("max(0, len(sections) - 1)", "len(sections)"),
        ("found.append(_sheet(numbers[4:12]))", "found.insert(0, _sheet(numbers[4:12]))"),
    ],
    "word-breaks": [
        ("max(gaps[at + offset], digit)", "digit or gaps[at + offset]"),
        ("2 <= place <= len(word) - 3", "1 <= place <= len(word) - 2"),
    ],
    "paper-price": [("11 if kind", "10 if kind"), ("(sheets - above / 10)", "(sheets * (Fraction(9, 10) if above else 1))")],
    "register-order": [("-len(name)", "len(name)"), ("or text", "")],
    "docket-numbers": [(" if peg != 13", ""), ('"ABCDEGH"', '"ABCDEFGH"')],
    "type-case": [('total = ways(at + 1, left) if line[at] == "l" else 0', "total = 0"), (" and not last", "")],
    "day-sheet": [("(share + 50) // 100", "(share + 49) // 100"), ("max(0, copies - 1000)", "max(0, copies - 1001)")],
    "standing-texts": [('return f"({name})"', 'return ""'), ('"|".join([name, *parts])', '"|".join([name])')],
    "stacker": [("        if len(pile) == most:\n            yield pile\n            pile = []\n", ""), ("<= 100", "< 100")],
    "window-queue": [("% 3 == 0", "% 4 == 0"), ("(max(minute, arrival), number)", "(minute, number)")],
    "point-columns": [('.ljust(right, "_")', ""), ("len(whole)", "len(whole.lstrip('+-'))")],
    "stack-machine": [("abs(a) // abs(b)", "a // b"), ("number < 1", "number < 0")],
    "date-gaps": [("(b - a).days - 1", "(b - a).days"), ("key=lambda gap: gap[0]", "key=lambda gap: gap")],
    "spreading-ink": [("range(9, 1, -1)", "range(2, 10)"), ("max(rows[b][a], str(strength))", "str(strength)")],
    "line-editor": [
        ("            if new != text:\n    ", "            if True:\n    "),
        ("[*back, text], [], new", "[*back, text], forth, new"),
    ],
    "free-slots": [("start = max(start, end)", "start = end"), (">= need", "> need")],
    "work-and-rest": [
        ("day + 2 * length", "day + length + 1"),
        ("range(1, days - day + 1)", "range(1, min(3, days - day + 1))"),
    ],
    "assembly-order": [("max(ready)", "min(ready)"), ("if part in _all_needs(part, needs)", "")],
    "nth-word": [("number >= _endings", "number > _endings"), ("word[-2:] != 2 * letter", "True")],
    "short-handles": [("== 1", "<= 2"), ('name + "."', "name")],
    "drying-lockers": [("wet[0][0] < moment", "wet[0][0] <= moment"), ("guest not in held and free", "free")],
    "weight-cache": [("        self._kept.pop(key, None)\n", ""), ("self._kept[key] = self._kept.pop(key)\n", "pass\n")],
    "span-set": [
        ("span[0] <= last + 1 and span[1] >= first - 1", "span[0] <= last and span[1] >= first"),
        ('str(number) if number >= 0 else f"({number})"', "str(number)"),
    ],
    "nested-drafts": [
        ("(key in old, old.get(key)) != (key in new, new.get(key))", "old.get(key) != new.get(key)"),
        ("self._layers[-2:] = self._layers[-1:]", "self._layers.pop(0)"),
    ],
    "root-two": [
        ("a < 0 if a * a > 2 * b * b else b < 0", "a + b * 2**0.5 < 0"),
        ("hash(self._pair) if self._pair[1] else hash(self._pair[0])", "hash(self._pair)"),
    ],
    "code-safe": [('elif key == "#" and self._entered:', 'elif key == "#":'), ("min(1, self._failures)", "0")],
    "outline": [
        ('other.startswith(number + ".")', "other.startswith(number)"),
        ("        for row in self._rows[start:end]:\n", "        for row in self._rows[start : start + 1]:\n"),
    ],
    "median-window": [
        ("whole, half = divmod(abs(double), 2)", "whole, half = int(abs(double) / 2), double % 2"),
        ("f\"{'-' if double < 0 else ''}{whole}", "f\"{'-' if double < -1 else ''}{whole}"),
    ],
    "rising-turns": [
        ("waiting.append((source, [element]))", "waiting.append((source, []))"),
        ("waiting.append((", "waiting.appendleft(("),
    ],
    "resettable-meter": [("answer = resets", "answer = total"), ("total <= limit", "total < limit")],
    "pruned-walk": [
        (
            '        if answer == "leave":\n            return False\n',
            '        if answer == "leave":\n            return True\n',
        ),
        (
            'and (yield from _walk(below, f"{prefix}{name}/")):\n            return True',
            'and (yield from _walk(below, f"{prefix}{name}/")):\n            return False',
        ),
    ],
    "again-decorator": [("if tries == times:", "if tries > times:"), ("errors or Exception", "errors or BaseException")],
    "memo-by-key": [
        ("if mark not in results:", "if results.get(mark) is None:"),
        ("        results = {}\n\n        @wraps", "        results = memo.__dict__.setdefault('all', {})\n\n        @wraps"),
    ],
    "span-of-time": [('or text.endswith(" ")', ""), ("least, at = place + 1, at + 1", "least, at = place, at + 1")],
    "all-complaints": [
        ("error.exceptions if isinstance(error, ExceptionGroup) else [error]", "[error]"),
        ("if len(failed) == 1:", "if False:"),
    ],
    "changed-for-a-while": [
        ("{key: self._mapping.get(key, ...) for key in self._values}", "dict(self._mapping)"),
        ("self._mapping.get(key, ...)", "self._mapping.get(key)"),
    ],
    "price-rules": [('list(amount) if kind == "then" else amount', "amount"), ("return dict(rules)", "return rules")],
    "fair-shares": [
        ("-(cents * weights[place] % total)", "(cents * weights[place] % total)"),
        ("cents * weight // total", "int(cents * weight / total)"),
    ],
    "nearest-fraction": [
        ("Fraction(text)", "Fraction(float(text))"),
        (
            "abs(fraction - number), fraction.denominator, abs(fraction)",
            "abs(fraction - number), fraction.denominator, -abs(fraction)",
        ),
    ],
    "significant-figures": [
        ("+ 5 * 10 ** (extra - 1)", "+ 5 * 10 ** (extra - 1) - 1"),
        ("extra += len(str(number)) - count", "pass"),
    ],
    "scattered-bits": [
        ("value.bit_count()", "value"),
        ("        mask >>= 1\n        place <<= 1\n", "        mask &= mask - 1\n        place <<= 1\n"),
    ],
    "even-lines": [("max(0, width - length) ** 2", "max(0, width - length)"), ("0 if end == len(words) else ", "")],
    "fidget-walks": [("stayed = moved\n", "stayed = both[1:-1]\n"), ("return moved[0] + stayed[0]", "return moved[0]")],
    "monthly-dates": [
        ("monday if monday.month == day.month else monday - timedelta(3)", "monday"),
        ("7 - day.weekday()", "8 - day.weekday()"),
    ],
    "timetable-weeks": [("date(year, 9, 29)", "date(year, 10, 1)"), ("date(year, 9, 29)", "date(year, 9, 28)")],
    "league-table": [
        ("_points(results, equals)[team]", "0 * _points(results, equals)[team]"),
        ("other < keys[team]", "other <= keys[team]"),
    ],
    "dotted-paths": [(" or not data", ""), (" or not before", "")],
    "let-expressions": [
        ("{**bound, name: value_of(first, bound)}", "bound.__setitem__(name, value_of(first, bound)) or bound"),
        ("None if test is None else ", ""),
    ],
    "nested-quotes": [("before not in ' (\"'", "before not in ' \"'"), ("2 - depth % 2", "2 - min(depth, 1)")],
    "period-lengths": [("abs(bottom) // gcd(top, bottom)", "abs(bottom)"), ("        before += 1\n", "        before = 1\n")],
    "balanced-five": [("while number or not text", "while number"), ("not text or ", "")],
}
"""Task to what of its gold is replaced by what: the mistakes one makes."""

SECOND = {
    "timetable-weeks": """
import datetime

def week_label(day):
    when = datetime.date.fromisoformat(day)
    one = datetime.timedelta(days=1)

    def begins(year):
        d = datetime.date(year, 9, 20)
        while True:
            week = [d + i * one for i in range(7)]
            if d.isoweekday() == 4 and sum(x.month >= 10 for x in week) >= 5:
                return d
            d += one

    season = max(y for y in (when.year - 1, when.year) if begins(y) <= when)
    number, d = 1, begins(season)
    while d + 7 * one <= when:
        d += 7 * one
        number += 1
    return "%04d/W%02d" % (season, number)
""",
    "telegram-check": """
def check_sign(text):
    worth = {str(d): d for d in range(10)} | {chr(65 + i): 11 + i for i in range(26)}
    values = [worth.get(c, 5) for c in text][::-1]
    return "ACEFHJKLMNPRTUVWXY347"[(sum(values) + 3 * sum(values[2::3])) % 21]
""",
    "running-days": """
import calendar, datetime

def running_days(first, last):
    total = 0
    y0, y1 = int(first[:4]), int(last[:4])
    for year in range(y0, y1 + 1):
        for month in range(1, 13):
            days = range(1, calendar.monthrange(year, month)[1] + 1)
            feast = {1: 1, 8: 14, 9: 13, 12: 26}.get(month)
            kind = {d: calendar.weekday(year, month, d) for d in days}
            summer = month in (5, 6, 7, 8, 9, 10)
            open_days = {d for d in days if summer or kind[d] > 4 or d == feast}
            wanted = [d for d in days if kind[d] == (1 if summer else 5)][2 if month == 5 else 1]
            if summer and wanted == feast:
                wanted += 1
            open_days.discard(wanted)
            total += sum(first <= f"{year:04}-{month:02}-{d:02}" <= last for d in open_days)
    return total
""",
    "bell-code": """
TABLE = {
    ("CREEP", 1): "STILL", ("RUN", 1): "STILL", ("STILL", 2): "CREEP", ("CREEP", 2): "RUN", ("RUN", 3): "CREEP",
    ("CREEP", 3): "STILL",
}

def drive(signals):
    stack = ["STILL"]
    out = []
    for i, s in enumerate(signals):
        if i and signals[i - 1] == s:
            pass
        elif s > 5:
            stack = ["STILL", "HELD"]
        elif s == 4 and len(stack) == 1:
            stack.append("HELD")
        elif s == 5 and len(stack) == 2:
            stack.pop()
            if stack[0] == "RUN":
                stack[0] = "CREEP"
        elif len(stack) == 1:
            stack[0] = TABLE.get((stack[0], s), stack[0])
        out.append(stack[-1])
    return out
""",
    "register-order": """
def register(names):
    order = "abcdefgh\\x01ijkl\\x02mnopqrstuvwxzåäö"
    keyed = []
    for place, name in enumerate(names):
        low = name.lower()
        first, _, rest = low.lstrip().partition(" ")
        kept = rest if first in ("the", "st") and any(c.isalpha() for c in rest) else low
        kept = "".join(c for c in kept if c.isalpha()).replace("ß", "ss").replace("y", "i")
        kept = kept.replace("ch", "\\x01").replace("ll", "\\x02")
        keyed.append(([order.find(c) for c in kept], -len(name), place))
    return [names[place] for _, _, place in sorted(keyed)]
""",
    "free-slots": """
def free_slots(busy, first, last, need):
    taken = set()
    for a, b in busy:
        taken.update(range(max(a, first), min(b, last)))
    out, start = [], None
    for minute in range(first, last + 1):
        if minute < last and minute not in taken:
            start = minute if start is None else start
        elif start is not None:
            if minute - start >= need:
                out.append([start, minute])
            start = None
    return out
""",
    "work-and-rest": """
def best_plan(values):
    states = {("free", 0): 0}
    for value in values:
        after = {}

        def put(state, total):
            after[state] = max(total, after.get(state, total))

        for (kind, n), total in states.items():
            if kind == "work":
                put(("work", n + 1), total + value)
            if kind == "free":
                put(("work", 1), total + value)
                put(("free", 0), total)
            elif n == 1:
                put(("free", 0), total)
            else:
                put(("rest", n - 1), total)
        states = after
    return max(states.values())
""",
    "short-handles": """
def handles(names):
    order = sorted(names)
    found = {}
    for i, name in enumerate(order):
        shared = 0
        for other in order[max(i - 1, 0) : i] + order[i + 1 : i + 2]:
            n = 0
            while n < min(len(name), len(other)) and name[n] == other[n]:
                n += 1
            shared = max(shared, n)
        found[name] = name[: shared + 1] if shared < len(name) else name + "."
    return [found[name] for name in names]
""",
    "nth-word": """
def nth_word(length, number):
    # single[n], double[n]: ways to go on for n letters after a run of 1 and of 2
    single, double = [1], [1]
    for _ in range(length):
        single.append(double[-1] + 2 * single[-1])
        double.append(2 * single[-2])
    total = 3 * single[length - 1] if length else 1
    if number >= total:
        return None
    out = []
    for left in range(length - 1, -1, -1):
        for letter in "abc":
            if out[-2:] == [letter, letter]:
                continue
            ways = double[left] if out[-1:] == [letter] else single[left]
            if number < ways:
                out.append(letter)
                break
            number -= ways
    return "".join(out)
""",
    "stacker": """
def piles(bundles, most):
    belt = iter(bundles)
    waiting = next(belt, None)
    while waiting is not None:
        pile, waiting = [waiting], None
        while len(pile) < most:
            waiting = next(belt, None)
            if waiting is None or sum(pile, waiting) > 100:
                break
            if waiting > pile[-1]:
                if len(pile) > 1:
                    break
                pile.insert(0, waiting)
            else:
                pile.append(waiting)
            waiting = None
        yield pile
        if waiting is None:
            waiting = next(belt, None)
""",
    "fair-shares": """
from fractions import Fraction

def shares(cents, weights):
    sign = -1 if cents < 0 else 1
    exact = [Fraction(abs(cents) * w, sum(weights)) for w in weights]
    out = [int(x) for x in exact]
    while sum(out) < abs(cents):
        best = 0
        for i in range(len(exact)):
            if exact[i] - out[i] > exact[best] - out[best]:
                best = i
        out[best] += 1
    return [sign * x for x in out]
""",
    "scattered-bits": """
def scatter(value, mask):
    bits = bin(value)[:1:-1]
    places = [i for i, c in enumerate(bin(mask)[:1:-1]) if c == "1"]
    return sum(1 << p for p, c in zip(places, bits) if c == "1"), bits[len(places):].count("1")
""",
    "period-lengths": """
def period(top, bottom, base):
    bottom = abs(bottom)
    rest = abs(top) % bottom
    seen = {}
    while rest and rest not in seen:
        seen[rest] = len(seen)
        rest = rest * base % bottom
    if not rest:
        return len(seen), 0
    return seen[rest], len(seen) - seen[rest]
""",
    "even-lines": """
from functools import cache

def break_lines(words, width):
    words = tuple(words)

    @cache
    def plan(rest):
        if not rest:
            return 0, ()
        found = None
        for count in range(len(rest), 0, -1):
            line = " ".join(rest[:count])
            if len(line) > width and count > 1:
                continue
            free = 0 if count == len(rest) else max(width - len(line), 0)
            cost, lines = plan(rest[count:])
            if found is None or cost + free * free < found[0]:
                found = cost + free * free, (line, *lines)
        return found

    return list(plan(words)[1])
""",
}
