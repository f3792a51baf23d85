"""How rows are read off the line: PyMySQL's connection, with a quicker way through the packets that hold ordinary rows.

    peek into the buffer ──► rows with short values (< 251 bytes), parsed in place
                    └─ anything else: one packet the way of PyMySQL (long values, packets in pieces, errors, the end)

PyMySQL makes an object of each packet and a call of each value; here a row costs half of that. What it does not do: interpret.
Values are converted by PyMySQL's own converters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pymysql.connections import Connection, MySQLResult

_LONG, _NULL = 0xFC, 0xFB
"""The first of the marks for lengths that take more bytes than one, and the mark of a NULL."""
Row = tuple[Any, ...]
Converter = tuple[str | None, Callable[[Any], Any] | None]


class Result(MySQLResult):  # type: ignore[misc]
    """Of one statement. `taken`: bytes of the rows that were read."""

    connection: Any

    def __init__(self, connection: Any) -> None:
        super().__init__(connection)
        self.taken = 0

    def fetch(self, rows: int, size: int) -> list[Row]:
        """Rows to the end, or until there are more than `rows` or `size` bytes of them; then `unbuffered_active` is left."""
        found: list[Row] = []
        converters = [_quicker(*each) for each in self.converters]
        while self.unbuffered_active and len(found) <= rows and self.taken <= size:
            found += self._from_buffer(converters)
            found += self._one()
        return found

    def _from_buffer(self, converters: list[Converter]) -> list[Row]:
        connection = self.connection
        rows, length = _parse(connection._rfile.peek(), connection._next_seq_id, converters)
        connection._rfile.read(length)
        connection._next_seq_id = (connection._next_seq_id + len(rows)) % 256
        self.taken += length
        return rows

    def _one(self) -> list[Row]:
        """The next row; none at the end."""
        packet = self.connection._read_packet()
        if self._check_packet_is_eof(packet):
            self.unbuffered_active, self.connection = False, None
            return []
        self.taken += len(packet.get_all_data())
        return [self._read_row_from_packet(packet)]


class RowConnection(Connection):  # type: ignore[misc]
    """Results that are not buffered are `Result`s."""

    def ask(self, statement: str) -> Result:
        self.query(statement, unbuffered=True)
        return self._unread()

    def drain(self, result: Result) -> None:
        """Read away what is left of it, and the further results of a procedure."""
        result._finish_unbuffered_query()
        while result.has_next:
            self.next_result(unbuffered=True)
            result = self._unread()
            result._finish_unbuffered_query()

    def _unread(self) -> Result:
        assert isinstance(self._result, Result)
        return self._result

    def _read_query_result(self, unbuffered: bool = False) -> int:
        if not unbuffered:
            return int(super()._read_query_result())
        self._result = None
        result = Result(self)
        result.init_unbuffered_query()
        self._result = result
        if result.server_status is not None:
            self.server_status = result.server_status
        return int(result.affected_rows)


def _quicker(encoding: str | None, convert: Callable[[Any], Any] | None) -> Converter:
    """Numbers are read from bytes as well as from text."""
    return (None, convert) if convert is int or convert is float else (encoding, convert)


def _parse(data: bytes, number: int, converters: list[Converter]) -> tuple[list[Row], int]:
    """The ordinary rows at the beginning of `data`, and how many bytes they take. `number`: the first packet's."""
    rows: list[Row] = []
    begin = 0
    while len(data) - begin > 4:
        end = begin + 4 + int.from_bytes(data[begin : begin + 3], "little")
        if end > len(data) or data[begin + 3] != number or (row := _row(data, begin + 4, end, converters)) is None:
            break
        rows.append(row)
        begin, number = end, (number + 1) % 256
    return rows, begin


def _row(data: bytes, place: int, end: int, converters: list[Converter]) -> Row | None:
    values: list[Any] = []
    for encoding, convert in converters:
        length = data[place] if place < end else _LONG
        place += 1
        if length == _NULL:
            values.append(None)
            continue
        if length >= _LONG:
            return None
        value: Any = data[place : place + length]
        place += length
        if encoding is not None:
            value = value.decode(encoding)
        values.append(value if convert is None else convert(value))
    return tuple(values) if place == end else None
