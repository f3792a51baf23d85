"""A wrong solution of each task of the Python starter set, as a change of its gold; and solutions
built differently."""

from __future__ import annotations

MISSES: dict[str, tuple[str, str]] = {
    "telegram-check": ("place % 3 == 0", "place % 3 == 1"),
    "telegram-body": ('sign == "=" and len(fields) == 1', 'sign == "="'),
    "ride-fares": ("(2 * full * part + 40) // 80 * 5", "round(full * part / 40) * 5"),
    "running-days": ("3 if month == 5 else 2", "2"),
    "bell-code": ('{"RUN": "CREEP"}.get(kept, kept)', "kept"),
    "wind-alarms": ("speed > limit", "speed >= limit"),
    "quickest-ride": ('(start, "KA")', "(start,)"),
    "cabin": ("names[:at] + names[:at:-1]", "names[:at] + names[at + 1:]"),
    "tower-logger": ("bits[:0:-1]", "bits[1:]"),
    "seating": ("reverse=True)", "reverse=False)"),
    "proof-marks": ("added.insert(0, rest[0])", "added.append(rest[0])"),
    "sheet-layout": ("max(0, len(sections) - 1)", "len(sections)"),
    "word-breaks": ("max(gaps[at + offset], digit)", "digit or gaps[at + offset]"),
    "paper-price": ("11 if kind", "10 if kind"),
    "register-order": ("-len(name)", "len(name)"),
    "docket-numbers": (" if peg != 13", ""),
    "type-case": ('total = ways(at + 1, left) if line[at] == "l" else 0', "total = 0"),
    "day-sheet": ("(share + 50) // 100", "(share + 49) // 100"),
    "standing-texts": ('return f"({name})"', 'return ""'),
    "stacker": (
        "        if len(pile) == most:\n            yield pile\n            pile = []\n",
        "",
    ),
    "window-queue": ("% 3 == 0", "% 4 == 0"),
    "point-columns": ('.ljust(right, "_")', ""),
    "stack-machine": ("abs(a) // abs(b)", "a // b"),
    "date-gaps": ("(b - a).days - 1", "(b - a).days"),
    "spreading-ink": ("range(9, 1, -1)", "range(2, 10)"),
    "line-editor": ("            if new != text:\n    ", "            if True:\n    "),
    "free-slots": ("start = max(start, end)", "start = end"),
    "work-and-rest": ("day + 2 * length", "day + length + 1"),
    "assembly-order": ("max(ready)", "min(ready)"),
    "nth-word": ("number >= _endings", "number > _endings"),
    "short-handles": ("== 1", "<= 2"),
    "drying-lockers": ("wet[0][0] < moment", "wet[0][0] <= moment"),
    "weight-cache": ("        self._kept.pop(key, None)\n", ""),
    "span-set": (
        "span[0] <= last + 1 and span[1] >= first - 1",
        "span[0] <= last and span[1] >= first",
    ),
    "nested-drafts": ("self._layers[-2:] = self._layers[-1:]", "self._layers.pop(0)"),
    "root-two": ("a < 0 if a * a > 2 * b * b else b < 0", "a + b * 2**0.5 < 0"),
    "code-safe": ('elif key == "#" and self._entered:', 'elif key == "#":'),
    "outline": ('other.startswith(number + ".")', "other.startswith(number)"),
    "median-window": (
        "f\"{'-' if double < 0 else ''}{whole}",
        "f\"{'-' if double < -1 else ''}{whole}",
    ),
    "rising-turns": ("waiting.append((source, [element]))", "waiting.append((source, []))"),
    "resettable-meter": ("answer = resets", "answer = total"),
    "pruned-walk": (
        '        if answer == "leave":\n            return False\n',
        '        if answer == "leave":\n            return True\n',
    ),
    "again-decorator": ("if tries == times:", "if tries > times:"),
    "memo-by-key": ("if mark not in results:", "if results.get(mark) is None:"),
    "span-of-time": ('or text.endswith(" ")', ""),
    "all-complaints": (
        "error.exceptions if isinstance(error, ExceptionGroup) else [error]",
        "[error]",
    ),
    "changed-for-a-while": (
        "{key: self._mapping.get(key, ...) for key in self._values}",
        "dict(self._mapping)",
    ),
    "price-rules": ('list(amount) if kind == "then" else amount', "amount"),
    "fair-shares": ("-(cents * weights[place] % total)", "(cents * weights[place] % total)"),
    "nearest-fraction": ("Fraction(text)", "Fraction(float(text))"),
    "significant-figures": ("+ 5 * 10 ** (extra - 1)", "+ 5 * 10 ** (extra - 1) - 1"),
    "scattered-bits": ("value.bit_count()", "value"),
    "even-lines": ("max(0, width - length) ** 2", "max(0, width - length)"),
    "fidget-walks": ("stayed = moved\n", "stayed = both[1:-1]\n"),
    "monthly-dates": ("monday if monday.month == day.month else monday - timedelta(3)", "monday"),
    "timetable-weeks": ("date(year, 9, 29)", "date(year, 10, 1)"),
    "league-table": ("_points(results, equals)[team]", "0 * _points(results, equals)[team]"),
    "dotted-paths": (" or not data", ""),
    "let-expressions": ("None if test is None else ", ""),
    "nested-quotes": ("before not in ' (\"'", "before not in ' \"'"),
    "period-lengths": ("abs(bottom) // gcd(top, bottom)", "abs(bottom)"),
    "balanced-five": ("while number or not text", "while number"),
}
"""Task to what of its gold is replaced by what: a mistake one makes."""

SECOND = {
    "telegram-check": (
        """
def check_sign(text):
    worth = {str(d): d for d in range(10)} | {chr(65 + i): 11 + i for i in range(26)}
    values = [worth.get(c, 5) for c in text][::-1]
    return "ACEFHJKLMNPRTUVWXY347"[(sum(values) + 3 * sum(values[2::3])) % 21]
"""
    ),
    "scattered-bits": (
        """
def scatter(value, mask):
    bits = bin(value)[:1:-1]
    places = [i for i, c in enumerate(bin(mask)[:1:-1]) if c == "1"]
    return sum(1 << p for p, c in zip(places, bits) if c == "1"), bits[len(places):].count("1")
"""
    ),
    "period-lengths": (
        """
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
"""
    ),
    "free-slots": (
        """
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
"""
    ),
    "short-handles": (
        """
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
"""
    ),
    "register-order": (
        """
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
"""
    ),
}
