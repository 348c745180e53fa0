"""Runs one of python's own test modules, or a class of it, and writes what became of each test.

usage: python_tests.py MODULE[.CLASS] REPORT.json

A test that fails is run again up to twice: some of them measure time. Those that pass then are named under "again".
"""
import json
import sys
import unittest

from test import support


class Record(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.outcomes, self.tests = {}, {}

    def note(self, test, outcome):
        name = test.id()
        if self.outcomes.get(name) not in ("failed", "error"):
            self.outcomes[name] = outcome
            self.tests[name] = test

    def addSuccess(self, test):
        self.note(test, "ok")

    def addSkip(self, test, reason):
        self.note(test, "skipped")

    def addFailure(self, test, problem):
        self.note(test, "failed")
        sys.stderr.write(self._exc_info_to_string(problem, test))

    def addError(self, test, problem):
        self.note(test, "error")
        sys.stderr.write(self._exc_info_to_string(problem, test))

    def addSubTest(self, test, part, problem):
        if problem:
            self.addFailure(test, problem)

    def addExpectedFailure(self, test, problem):
        self.note(test, "expected failure")

    def addUnexpectedSuccess(self, test):
        self.note(test, "unexpected success")


def main():
    name, path = sys.argv[1:]
    sys.argv = sys.argv[:1]
    support.use_resources = []
    record, again = Record(), []
    suite = unittest.defaultTestLoader.loadTestsFromName(f"test.{name}")
    suite.run(record)
    for bad in [bad for bad, outcome in record.outcomes.items() if outcome in ("failed", "error")]:
        for _ in range(2):
            second = Record()
            try:
                unittest.defaultTestLoader.loadTestsFromName(bad).run(second)
            except (ImportError, AttributeError, TypeError):
                break
            if second.outcomes.get(bad) == "ok":
                record.outcomes[bad] = "ok"
                again.append(bad)
                break
    support.reap_children()
    with open(path, "w", encoding="utf8") as file:
        json.dump({"outcomes": record.outcomes, "again": again}, file)


if __name__ == "__main__":
    main()
