"""Runs PyTorch's distributed tests in forks of one process, which has imported torch once: importing takes longer than a test.

    python upstream_run.py switch|imported|without FOLDER JOBS TIMEOUT RESULTS PATTERNS OTHER_TYPES EXPLICIT < tests

Each line of the input is a test file in FOLDER, or file::Class.test for one test of it; tests that match one of the
PATTERNS, a file of JSON strings, are left out. `imported` imports Weft and does not install it, `without` does not even import
it. Under `switch` weft.install() comes first, tests that expect an error by
PyTorch's text pass by Weft's if it has the type, or if they match one of OTHER_TYPES (see accept_own_text), and those that
match one of EXPLICIT run inside of an ExplicitRedistributionContext.
RESULTS gets one JSON object per test: {"test": "file::Class.test", "status": "passed", "reason": ""}.
"""

import collections
import fnmatch
import functools
import importlib
import importlib.util
import json
import os
import re
import select
import signal
import sys
import tempfile
import time
import traceback
import unittest

import torch
import torch.multiprocessing

_ERROR = re.compile(r"^(?:[\w.]+\.)?\w*(?:Error|Exception|Failure|Exit|Interrupt|TimeoutExpired)\b.*")
_WRAPPER = re.compile(r"RuntimeError: (?:Process \d+ exited|Exception in worker process|Thread \d+ exited)")


def reason_of(text):
    """The line that says what went wrong first, out of the tracebacks of several ranks, with the lines that belong to it."""
    lines = [line.strip() for line in text.splitlines()]
    found = []
    for i, line in enumerate(lines):
        if _WRAPPER.match(line) or re.match(r"(?:Process|Thread) \d", line):
            if found:
                break
        elif _ERROR.match(line):
            # Torch appends C++ frames to messages, and its assertions say the values in further lines.
            more = [each for each in lines[i + 1 : i + 5] if each and not re.match(r"Exception raised|frame #|To execute", each)]
            found.append(" ".join([line, *more[: 2 if line.endswith("!") or line.endswith(":") else 0]]))
    return (found[-1] if found else next((line for line in reversed(lines) if line), "no message"))[:400]


def fork_instead_of_spawn():
    context = torch.multiprocessing.get_context
    torch.multiprocessing.set_start_method("fork")
    torch.multiprocessing.set_start_method = lambda *args, **kwargs: None
    torch.multiprocessing.get_context = lambda method=None: context("fork")


_OWN_FORM = re.compile(r"(?:^|: )\[[\w.: ]+\] ")  # Weft's messages: `[where] what is required, but got ...`
_OWN_TEXT = "UPSTREAM_OWN_TEXT"  # names the file to which a rank writes when it met Weft's text instead of PyTorch's


def accept_own_text(other_types):
    """Where PyTorch's test expects an error or a warning by PyTorch's text, one with Weft's text counts if it is of the type
    that the test expects, or if the test is among other_types. A refusal (NotImplementedError, which Python derives from
    RuntimeError) counts only where the test expects one."""

    def is_expected(test, error, expected):
        name = f"{type(test).__name__}.{test._testMethodName}"
        if any(fnmatch.fnmatchcase(name, pattern.partition("::")[2]) for pattern in other_types):
            return isinstance(error, Exception)
        kinds = expected if isinstance(expected, tuple) else (expected,)
        refusals = [kind for kind in kinds if issubclass(kind, NotImplementedError)]
        return isinstance(error, tuple(refusals) if isinstance(error, NotImplementedError) else kinds)

    def own_text_met():
        with open(os.environ[_OWN_TEXT], "a") as file:
            file.write(".")

    class Raises(unittest.case._AssertRaisesContext):
        def __exit__(self, kind, error, trace):
            says_so = error is not None and self.expected_regex is not None and self.expected_regex.search(str(error))
            if isinstance(error, self.expected) and (says_so or self.expected_regex is None):
                return super().__exit__(kind, error, trace)
            if _OWN_FORM.search(str(error)) and is_expected(self.test_case, error, self.expected):
                own_text_met()
                self.exception = error.with_traceback(None)
                return True
            return super().__exit__(kind, error, trace)

    class Warns(unittest.case._AssertWarnsContext):
        def __exit__(self, kind, error, trace):
            texts = [str(each.message) for each in self.warnings if isinstance(each.message, self.expected)]
            if not any(map(self.expected_regex.search, texts)) and any(map(_OWN_FORM.search, texts)):
                own_text_met()
                self.expected_regex = None
            return super().__exit__(kind, error, trace)

    def assert_raises(self, expected, *args, **kwargs):
        return Raises(expected, self).handle("assertRaises", args, kwargs)

    def assert_raises_regex(self, expected, pattern, *args, **kwargs):
        return Raises(expected, self, pattern).handle("assertRaisesRegex", args, kwargs)

    def assert_warns_regex(self, expected, pattern, *args, **kwargs):
        return Warns(expected, self, pattern).handle("assertWarnsRegex", args, kwargs)

    for case in (unittest.TestCase, torch.testing._internal.common_utils.TestCase):
        case.assertRaises, case.assertRaisesRegex = assert_raises, assert_raises_regex
        case.assertWarnsRegex = assert_warns_regex


def run_explicitly(test):
    """Puts the body of a test, which other processes may run, into an ExplicitRedistributionContext."""
    import weft

    body = getattr(type(test), test._testMethodName)

    @functools.wraps(body)
    def explicit(*args, **kwargs):
        with weft.ExplicitRedistributionContext(strict=True):
            return body(*args, **kwargs)

    setattr(type(test), test._testMethodName, explicit)


class _Result(unittest.TestResult):
    status, reason = "passed", ""

    def _fail(self, text):
        if self.status != "failed":
            self.status, self.reason = "failed", text

    def addError(self, test, err):
        self._fail("".join(traceback.format_exception(*err)))

    addFailure = addError

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.addError(test, err)

    def addSkip(self, test, reason):
        if self.status == "passed":
            self.status, self.reason = "skipped", reason

    def addExpectedFailure(self, test, err):
        self.status, self.reason = "skipped", "PyTorch's test expects to fail"

    def addUnexpectedSuccess(self, test):
        self.status, self.reason = "passed where PyTorch expects to fail", ""


def run_here(test, is_explicit, out):
    """Runs one test in this process, which is a fork made for it."""
    os.setsid()
    if is_explicit:
        run_explicitly(test)
    log = os.open(os.devnull, os.O_WRONLY)
    if os.environ.get("UPSTREAM_LOG"):
        log = os.open(os.environ["UPSTREAM_LOG"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    result = _Result()
    descriptor, os.environ[_OWN_TEXT] = tempfile.mkstemp()
    try:
        unittest.TestSuite([test]).run(result)
    except BaseException:
        result._fail(traceback.format_exc())
    if result.status == "failed" and os.environ.get("UPSTREAM_LOG"):
        os.write(log, f"==== {test.id()}\n{result.reason}\n".encode())
    if result.status == "passed" and is_explicit:
        result.status = "passed in an ExplicitRedistributionContext"
    elif result.status == "passed" and os.fstat(descriptor).st_size:
        result.status = "passed by Weft's text"
    reason = reason_of(result.reason) if result.status == "failed" else result.reason
    os.write(out, json.dumps([result.status, reason]).encode())
    os._exit(0)


class Running:
    def __init__(self, name, test, is_explicit, timeout):
        self.name = name
        self.out, write = os.pipe()
        self.deadline = time.monotonic() + timeout
        self.pid = os.fork()
        if self.pid == 0:
            run_here(test, is_explicit, write)
        os.close(write)

    def finish(self, timed_out):
        text = b"" if timed_out else os.read(self.out, 1 << 16)
        os.close(self.out)
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        if timed_out:
            return "failed", "timed out"
        return json.loads(text) if text else ("failed", "the process died")


def run_all(tests, jobs, timeout, record):
    waiting, running = collections.deque(tests), []
    while waiting or running:
        while waiting and len(running) < jobs:
            running.append(Running(*waiting.popleft(), timeout))
        wait = max(0.0, min(each.deadline for each in running) - time.monotonic())
        ready, _, _ = select.select([each.out for each in running], [], [], wait)
        now = time.monotonic()
        for each in list(running):
            if each.out in ready or now >= each.deadline:
                running.remove(each)
                record(each.name, *each.finish(each.out not in ready))


def tests_of(path, file):
    sys.path[:0] = [os.path.dirname(path)]
    spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)

    def flat(suite):
        for each in suite:
            yield from flat(each) if isinstance(each, unittest.TestSuite) else [each]

    for test in flat(unittest.TestLoader().loadTestsFromModule(module)):
        yield f"{file}::{type(test).__name__}.{test._testMethodName}", test


def run_file(root, file, wanted, skip, is_explicit, jobs, timeout, record):
    """In a fork per file, since test files change torch's global state when they are imported."""
    pid = os.fork()
    if pid:
        _, status = os.waitpid(pid, 0)
        return status
    try:
        found = list(tests_of(os.path.join(root, file), file))
    except BaseException:
        if not isinstance(sys.exc_info()[1], unittest.SkipTest):
            record(f"{file}::import", "failed", reason_of(traceback.format_exc()))
        os._exit(0)
    chosen = [(name, test, is_explicit(name)) for name, test in found if (not wanted or name in wanted) and not skip(name)]
    run_all(chosen, jobs, timeout, record)
    os._exit(0)


def patterns_in(path):
    with open(path) as lines:
        return [json.loads(line) for line in lines]


def among(patterns):
    return lambda name: any(fnmatch.fnmatchcase(name, each) for each in patterns)


def main():
    mode, root, jobs, timeout, results = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), sys.argv[5]
    skipped, other_types, explicit = map(patterns_in, sys.argv[6:9])
    files = collections.defaultdict(set)
    for line in sys.stdin.read().split():
        file, _, test = line.partition("::")
        files[file].update([line] if test else [])
    os.environ.setdefault("WEFT_TIMEOUT_SECONDS", "60")  # a rank that fails must not make the others wait beyond the test's limit
    if mode != "without":
        import weft

    if mode == "switch":
        weft.install()
    importlib.import_module("torch.testing._internal.distributed._tensor.common_dtensor")

    if mode == "switch":
        accept_own_text(other_types)
    fork_instead_of_spawn()
    tempfile.tempdir = tempfile.mkdtemp()
    out = os.open(results, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)

    def record(test, status, reason):
        os.write(out, (json.dumps({"test": test, "status": status, "reason": reason}) + "\n").encode())

    for file, wanted in files.items():
        begin = time.monotonic()
        status = run_file(root, file, wanted, among(skipped), among(explicit if mode == "switch" else []), jobs, timeout, record)
        if status:
            record(f"{file}::import", "failed", f"the process of the file ended with status {status}")
        print(f"{mode} {file}: {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
