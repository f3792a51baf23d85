cd /srv/toolz && python3 -m pytest -q --junitxml=/logs/verifier/junit.xml /tests/toolz
