"""Queries in other languages: `exact` compares strictly, and fields of the record decide."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import intercode
from intercode.envs.bash.compare import bash_exact
from intercode.envs.bash.english import WORDS, is_english
from intercode.envs.bash.lint import lint
from intercode.errors import DataError
from intercode.tasks import load_tasks
from intercode.types import Change, Outcome, Task

ENGLISH = (
    "Print the name of the largest file in /srv.",
    'Dump "/srv/a.txt" as ASCII characters',
    "List files srted by size, largest frist",
    "Count `*.py` files below /srv/app",
    "pwd",
    "Which files in /srv/d contain the letter λ?",
)
OTHERS = {
    "de": (
        "Liste die Dateien in /srv/d nach Größe sortiert auf, die größte zuerst.",
        "Zähle die Zeilen von /srv/d/n und gib nur die Zahl aus.",
        "Wie viele Ordner liegen unter /srv, und wie viele Dateien?",
        "Lösche alle leeren Dateien in /srv/d.",
        "Welche Datei in /srv/logs wurde zuletzt geändert? Antworte nur mit dem Namen.",
    ),
    "fr": (
        "Liste les fichiers de /srv/d triés par taille, du plus grand au plus petit.",
        "Affiche le contenu du fichier /srv/d/n.",
        "Combien de lignes contient /srv/d/n ? Donne seulement le nombre.",
        "Supprime les fichiers vides et affiche combien de fichiers restent.",
        "Renomme le fichier a.txt en b.txt dans /srv/d.",
    ),
    "es": (
        "Muestra los tres archivos más grandes de /srv/d, ordenados por tamaño.",
        "Cuenta las líneas de /srv/d/n e imprime solo el número.",
        "Borra los archivos vacíos de /srv/d.",
        "¿Cuál es el usuario que más veces aparece en /srv/log?",
    ),
    "ru": (
        "Выведи файлы из /srv/d, отсортированные по размеру.",
        "Сколько строк в файле /srv/d/n? Напечатай только число.",
        "Удали все пустые файлы в /srv/d.",
    ),
    "mixed": ("How many files are in /srv/d? 只输出数字。", "List the files of /srv/d по размеру."),
    "zh": (
        "按大小从大到小列出 /srv/d 中的文件 a、b 和 c。",
        "删除 /srv/d/a,并打印 /srv/d 中剩余的文件数。",
        "打印内容。",
    ),
    "ja": (
        "/srv/d の中のファイルを大きい順に表示してください。",
        "空のファイルをすべて削除してください。",
    ),
}


def test_english_is_told_from_other_languages() -> None:
    assert [query for query in ENGLISH if not is_english(query)] == []
    assert [query for queries in OTHERS.values() for query in queries if is_english(query)] == []


def test_the_words_are_common_words_in_small_letters() -> None:
    assert len(WORDS) <= 300
    assert all(word.isascii() and word.islower() and len(word) > 1 for word in WORDS)
    assert WORDS.isdisjoint({"an", "in", "on", "me", "no", "de", "la", "die", "der", "les", "el"})


@pytest.mark.parametrize(
    ("query", "fields", "gold", "agent", "success"),
    [
        (OTHERS["de"][0], {}, "a\nb", "b\na", False),
        (OTHERS["de"][0], {}, "a\nb", "a\nb", True),
        (OTHERS["de"][0], {"order_counts": False}, "a\nb", "b\na", True),
        ("List the files in /srv.", {"order_counts": True}, "a\nb", "b\na", False),
        ("List the files in /srv by size.", {"order_counts": False}, "a\nb", "b\na", True),
        (OTHERS["fr"][2], {}, "3", "3 /srv/d/n", False),
        (OTHERS["fr"][2], {"answer_form": "any"}, "3", "3 /srv/d/n", True),
        ("How many lines has /srv/d/n?", {"answer_form": "only"}, "3", "3 /srv/d/n", False),
        ("How many lines has /srv/d/n?", {"answer_form": "none"}, "3", "", True),
        ("Answer yes or no.", {}, "yes", "Yes, there is.", True),
        ("Answer yes or no.", {}, "yes", "No", False),
        ("Is it open/closed?", {}, "Open", "open", True),
        ("Print the name.", {}, "yes", "Yes", False),
    ],
)
def test_order_and_form_of_the_answer(
    query: str, fields: dict[str, Any], gold: str, agent: str, success: bool
) -> None:
    task = Task("t", query, "gold", fields)
    assert bash_exact(Outcome(agent, {}), Outcome(gold, {}), task).success is success


@pytest.mark.parametrize(
    ("fields", "gold", "agent", "success"),
    [
        ({}, "2", "99", False),
        ({}, "2", "2", True),
        ({}, "", "a.txt b.txt", True),  # the gold prints nothing, and the agent looks
        ({"answer_form": "none"}, "2", "99", True),
        ({"answer_form": "only"}, "2", "99", False),
    ],
)
def test_the_answer_counts_beside_changed_files(
    fields: dict[str, Any], gold: str, agent: str, success: bool
) -> None:
    removed = {"/srv/d/a": Change("removed", "file")}
    for query in (OTHERS["zh"][1], OTHERS["fr"][3]):
        task = Task("t", query, "gold", fields)
        assert bash_exact(Outcome(agent, removed), Outcome(gold, removed), task).success is success


def test_tasks_taken_for_another_language_are_named() -> None:
    kinds = [issue.kind for issue in lint(Task("t", OTHERS["es"][0], "ls -S /srv/d"))]
    assert "not_english" in kinds
    decided = {"order_counts": True, "answer_form": "only"}
    kinds = [issue.kind for issue in lint(Task("t", OTHERS["es"][0], "ls -S /srv/d", decided))]
    assert "not_english" not in kinds


def test_the_fields_are_read_from_json_and_csv_and_refused_where_they_decide_nothing(
    tmp_path: Path,
) -> None:
    both = ("order_counts", "answer_form")
    csv = tmp_path / "t.csv"
    csv.write_text("query,gold,order_counts,answer_form\nq,g,no,only\nr,g,,\n")
    first, second = load_tasks(csv, judged_by=both)
    assert (first.extra, second.extra) == ({"order_counts": False, "answer_form": "only"}, {})
    data = tmp_path / "t.jsonl"
    for record, why in (
        ({"answer_form": "short"}, "write 'only', 'any', 'none'"),
        ({"order_counts": "often"}, "write true or false"),
    ):
        data.write_text(json.dumps({"query": "q", "gold": "g", **record}))
        with pytest.raises(DataError, match=why):
            load_tasks(data, judged_by=both)
    data.write_text(json.dumps({"query": "q", "gold": "SELECT 1", "answer_form": "only"}))
    with pytest.raises(DataError, match="has no effect here: it is for answers in Bash"):
        intercode.prepare("sql", data=str(data))
